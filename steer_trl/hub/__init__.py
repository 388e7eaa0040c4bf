"""A model card in every folder that is saved, and one error if a push to the Hub fails."""
