"""From kernel IR to text, one emitter per language. Imports neither triton nor ctypes."""
