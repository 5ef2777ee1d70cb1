"""Words and pictures; computes nothing. view/ holds what all forms share."""
