"""Units for others: stubs for editors, and folders of formulas as wheels."""
