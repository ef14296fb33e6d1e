"""Files of Python with `torch.autograd.Function`s and scripted functions, told in the language: read, never run."""
