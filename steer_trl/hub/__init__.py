"""What leaves the machine: a card in every folder that is saved, and one error where a push fails."""
