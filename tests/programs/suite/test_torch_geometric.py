"""PyTorch Geometric: graph networks are trained as on the CPU, also in batches and with several kinds of nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_geometric as geometric
from torch_geometric import nn as gnn
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.loader import DataLoader, PrefetchLoader

from .harness import DEVICE, on_both, train

CHANNELS = 8


def graph(nodes: int = 12, edges: int = 40) -> Data:
    return Data(
        x=torch.randn(nodes, CHANNELS),
        edge_index=torch.randint(0, nodes, (2, edges)),
        edge_attr=torch.rand(edges, 3),
        pos=torch.randn(nodes, 3),
        y=torch.randint(0, 4, (nodes,)),
    )


Layer = Callable[[], torch.nn.Module]
PLAIN: dict[str, Layer] = {
    "GCN": lambda: gnn.GCNConv(CHANNELS, 4),
    "GAT": lambda: gnn.GATConv(CHANNELS, 4, heads=2, concat=False, dropout=0.2),
    "GATv2": lambda: gnn.GATv2Conv(CHANNELS, 4),
    "SAGE": lambda: gnn.SAGEConv(CHANNELS, 4),
    "SAGE with LSTM": lambda: gnn.SAGEConv(CHANNELS, 4, aggr="lstm"),
    "SAGE with max": lambda: gnn.SAGEConv(CHANNELS, 4, aggr=["max", "mean", "std", "median"]),
    "GIN": lambda: gnn.GINConv(torch.nn.Linear(CHANNELS, 4), train_eps=True),
    "Graph": lambda: gnn.GraphConv(CHANNELS, 4),
    "Gated": lambda: gnn.GatedGraphConv(CHANNELS, 2),
    "Cheb": lambda: gnn.ChebConv(CHANNELS, 4, K=3),
    "TAG": lambda: gnn.TAGConv(CHANNELS, 4, K=2),
    "SG": lambda: gnn.SGConv(CHANNELS, 4, K=2),
    "ARMA": lambda: gnn.ARMAConv(CHANNELS, 4, num_stacks=2, num_layers=2),
    "APPNP": lambda: gnn.APPNP(K=3, alpha=0.1),
    "Edge": lambda: gnn.EdgeConv(torch.nn.Linear(2 * CHANNELS, 4)),
    "Transformer": lambda: gnn.TransformerConv(CHANNELS, 4, heads=2, concat=False),
    "LE": lambda: gnn.LEConv(CHANNELS, 4),
    "Cluster": lambda: gnn.ClusterGCNConv(CHANNELS, 4),
    "FA": lambda: gnn.ResGatedGraphConv(CHANNELS, 4),
    "PNA": lambda: gnn.PNAConv(
        CHANNELS, 4, ["mean", "min", "max", "std"], ["identity", "amplification"], torch.arange(12)
    ),
    "general": lambda: gnn.GeneralConv(CHANNELS, 4, attention=True),
}
WITH_EDGES: dict[str, Layer] = {
    "GINE": lambda: gnn.GINEConv(torch.nn.Linear(CHANNELS, 4), edge_dim=3),
    "NN": lambda: gnn.NNConv(CHANNELS, 4, torch.nn.Linear(3, CHANNELS * 4)),
    "CG": lambda: gnn.CGConv(CHANNELS, dim=3),
    "GMM": lambda: gnn.GMMConv(CHANNELS, 4, dim=3, kernel_size=2),
}
POOLS: dict[str, Layer] = {
    "top k": lambda: gnn.TopKPooling(CHANNELS, ratio=0.5),
    "SAG": lambda: gnn.SAGPooling(CHANNELS, ratio=0.5),
    "ASAP": lambda: gnn.ASAPooling(CHANNELS, ratio=0.5),
    "edge": lambda: gnn.EdgePooling(CHANNELS),
}
READOUTS: dict[str, Layer] = {
    "sum": gnn.SumAggregation,
    "max": gnn.MaxAggregation,
    "softmax": lambda: gnn.SoftmaxAggregation(learn=True),
    "sort": lambda: gnn.SortAggregation(k=3),
    "set to set": lambda: gnn.Set2Set(CHANNELS, processing_steps=2),
    "attention": lambda: gnn.AttentionalAggregation(torch.nn.Linear(CHANNELS, 1)),
    "quantile": lambda: gnn.QuantileAggregation([0.25, 0.5]),
    "GRU": lambda: gnn.GRUAggregation(CHANNELS, 4),
}


def marked(names: dict[str, Layer], *quick: str) -> list[Any]:
    return [pytest.param(name, marks=[] if name in quick else pytest.mark.matrix) for name in names]


@pytest.mark.parametrize("name", marked(PLAIN | WITH_EDGES, "GCN", "GAT"))
def test_a_convolution_trains_as_on_the_cpu(name: str) -> None:
    def program(device: str) -> Any:
        model = (PLAIN | WITH_EDGES)[name]()
        data = graph()
        data.edge_index = geometric.utils.sort_edge_index(data.edge_index.unique(dim=1), sort_by_row=False)
        data.edge_attr = data.edge_attr[: data.edge_index.size(1)]
        data = data.to(device)
        weight = torch.nn.Linear(CHANNELS, CHANNELS)  # so that every layer has something to learn
        both = torch.nn.ModuleDict({"first": weight, "layer": model})

        def loss(m: Any) -> torch.Tensor:
            edges = (data.edge_attr,) if name in WITH_EDGES else ()
            out: torch.Tensor = m["layer"](m["first"](data.x), data.edge_index, *edges)
            return out.square().mean()

        return train(both, device, loss)

    on_both(program)


@pytest.mark.matrix
@pytest.mark.parametrize("name", POOLS)
def test_a_pooling_and_its_gradient_are_the_cpus(name: str) -> None:
    def program(device: str) -> Any:
        batch = Batch.from_data_list([graph(7, 20), graph(9, 30)]).to(device)
        pool = POOLS[name]().to(device)
        out = pool(batch.x.requires_grad_(), batch.edge_index, batch=batch.batch)
        out[0].square().sum().backward()
        return [part for part in out if isinstance(part, torch.Tensor)], batch.x.grad

    on_both(program)


@pytest.mark.matrix
@pytest.mark.parametrize("name", READOUTS)
def test_a_readout_and_its_gradient_are_the_cpus(name: str) -> None:
    def program(device: str) -> Any:
        batch = Batch.from_data_list([graph(7, 20), graph(9, 30)]).to(device)
        out = READOUTS[name]().to(device)(batch.x.requires_grad_(), batch.batch)
        out.square().sum().backward()
        return out, batch.x.grad

    on_both(program)


def pooled(device: str) -> Any:
    data = graph().to(device)
    return train(gnn.GraphUNet(CHANNELS, 8, 4, 2), device, lambda m: m(data.x, data.edge_index).square().mean())


def points(device: str) -> Any:
    data = graph().to(device)
    layer = gnn.PointNetConv(torch.nn.Linear(CHANNELS + 3, 4))
    return train(layer, device, lambda m: m(data.x, data.pos, data.edge_index).square().mean())


def perceptron(device: str) -> Any:
    data = graph().to(device)
    mlp = gnn.MLP([CHANNELS, 8, 4], norm="batch_norm", dropout=0.3)
    return train(mlp, device, lambda m: m(data.x).square().mean())


def autoencoder(device: str) -> Any:
    data = graph().to(device)
    model = gnn.GAE(gnn.GCNConv(CHANNELS, 4))
    return train(
        model, device, lambda m: m.recon_loss(m.encode(data.x, data.edge_index), data.edge_index, data.edge_index)
    )


def translations(device: str) -> Any:
    head, relation, tail = (torch.randint(0, n, (20,)).to(device) for n in (9, 3, 9))
    return train(gnn.ComplEx(9, 3, 8), device, lambda m: m(head, relation, tail).square().mean())


@pytest.mark.matrix
@pytest.mark.parametrize("program", [pooled, points, perceptron, autoencoder, translations])
def test_a_model_trains_as_on_the_cpu(program: Callable[[str], Any]) -> None:
    """SchNet, DimeNet and Node2Vec need torch_cluster, which has kernels for the CPU and CUDA only."""
    on_both(program)


def test_a_graph_with_several_kinds_of_nodes_trains_as_on_the_cpu() -> None:
    def program(device: str) -> Any:
        data = HeteroData()
        data["user"].x = torch.randn(6, 5)
        data["film"].x = torch.randn(9, 7)
        data["user", "rates", "film"].edge_index = torch.stack([torch.randint(0, 6, (20,)), torch.randint(0, 9, (20,))])
        data["film", "rated by", "user"].edge_index = data["user", "rates", "film"].edge_index.flip(0)
        model = gnn.HeteroConv({edge: gnn.SAGEConv((-1, -1), 4) for edge in data.edge_types}, aggr="sum")
        model(data.x_dict, data.edge_index_dict)  # sizes are taken from the first batch
        data = data.to(device)
        return train(
            model, device, lambda m: sum(x.square().mean() for x in m(data.x_dict, data.edge_index_dict).values())
        )

    on_both(program)


def test_lazy_layers_create_their_parameters_on_the_device() -> None:
    """The first batch decides the size of the parameters, so the layer creates them during the first call."""

    def program(device: str) -> Any:
        data = graph().to(device)
        model = gnn.SAGEConv(-1, 4).to(device)
        torch.manual_seed(0)
        out = model(data.x, data.edge_index)
        assert {p.device.type for p in model.parameters()} == {device}
        return list(out.shape)

    on_both(program)


@pytest.mark.matrix
def test_utilities_give_the_cpus_results() -> None:
    def program(device: str) -> Any:
        utils = geometric.utils
        data = graph().to(device)
        index = torch.randint(0, 5, (20,)).to(device)
        values = torch.randn(20, 3).to(device)
        sparse = utils.to_torch_csr_tensor(data.edge_index, size=(12, 12))
        return {
            "scatter": {how: utils.scatter(values, index, reduce=how) for how in ("sum", "mean", "min", "max", "mul")},
            "segment": utils.segment(values, torch.tensor([0, 4, 9, 20], device=device), reduce="max"),
            "softmax": utils.softmax(values, index),
            "coalesced": utils.coalesce(data.edge_index),
            "undirected": utils.to_undirected(data.edge_index),
            "loops": utils.add_self_loops(data.edge_index)[0],
            "degree": utils.degree(data.edge_index[0], 12),
            "dense": utils.to_dense_adj(data.edge_index, max_num_nodes=12),
            "Laplacian": utils.get_laplacian(data.edge_index, normalization="sym", num_nodes=12),
            "subgraph": utils.subgraph(torch.arange(6, device=device), data.edge_index)[0],
            "hops": utils.k_hop_subgraph(0, 2, data.edge_index)[0],
            "product": utils.spmm(sparse, data.x),
        }

    on_both(program)


@pytest.mark.matrix
def test_transforms_give_the_cpus_graphs() -> None:
    def program(device: str) -> Any:
        t = geometric.transforms
        steps = [
            t.NormalizeFeatures(),
            t.Distance(),
            t.ToUndirected(),
            t.LocalDegreeProfile(),
            t.AddRandomWalkPE(3),
            t.Center(),
        ]
        data = t.Compose(steps)(graph().to(device))
        return {key: data[key] for key in sorted(data.keys()) if isinstance(data[key], torch.Tensor)}

    on_both(program)


def test_batches_of_a_loader_are_the_cpus() -> None:
    def program(device: str) -> Any:
        loader = DataLoader([graph(7, 20), graph(9, 30), graph(4, 5)], batch_size=2)
        return [batch.to(device).x for batch in loader]

    on_both(program)


def test_prefetching_leaves_batches_on_the_cpu() -> None:
    """The loader moves batches to CUDA and XPU only. It ignores any other device."""
    loader = PrefetchLoader(DataLoader([graph(7, 20)], batch_size=1), device=torch.device(DEVICE))
    assert next(iter(loader)).x.device.type == "cpu"


def test_the_default_device_is_the_cpu() -> None:
    assert geometric.device("auto").type == "cpu"
