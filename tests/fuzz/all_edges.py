"""Every edge, in one list."""

from tests.fuzz import edges_of_files, edges_of_texts, edges_of_wires
from tests.fuzz.edges import Edge

__all__ = ["EDGES"]

EDGES: tuple[Edge, ...] = (*edges_of_files.EDGES, *edges_of_texts.EDGES, *edges_of_wires.EDGES)
