"""Programs that use an exported run with numpy and onnxruntime alone; copied beside the model."""
