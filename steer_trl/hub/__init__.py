"""Model cards for all saved folders, and one clear error if a push to the Hub fails."""
