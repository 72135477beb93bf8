"""Graph layers with the API of PyTorch Geometric."""

from representer.errors import MissingExtraError

try:
    import torch_geometric  # noqa: F401
except ImportError as error:
    raise MissingExtraError("representer.nn.graph", "torch_geometric", "graph") from error
