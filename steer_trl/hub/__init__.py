"""What leaves the machine: a card in every folder that is saved, and pushes that fail loudly and lose nothing."""
