"""What can be measured: HTTP servers, the embedded engine, the simulated server."""
