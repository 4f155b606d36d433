"""Changes the code a little, again and again, and sees whether a test notices."""
