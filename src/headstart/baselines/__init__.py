"""Other people's methods that the papers compare with."""
