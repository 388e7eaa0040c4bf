"""Model cards for saved models, and one clear error if a push to the Hub fails."""
