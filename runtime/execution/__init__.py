"""From a call to a plan: arguments bound, graphs specialised, plans kept, derivatives ready to run."""
