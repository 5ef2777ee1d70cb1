"""What one step costs: config or GGUF to architecture to work."""
