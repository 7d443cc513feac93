"""torchmetrics: metrics that collect their state on the device, as on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torchmetrics.audio
import torchmetrics.clustering
import torchmetrics.image
import torchmetrics.retrieval
import torchmetrics.text
from torchmetrics import MetricCollection

from .harness import DEVICE, on_both

T = torchmetrics
Batch = Callable[[], tuple[torch.Tensor, ...]]


def classes() -> tuple[torch.Tensor, ...]:
    return torch.randn(20, 5).softmax(-1), torch.randint(0, 5, (20,))


def two() -> tuple[torch.Tensor, ...]:
    return torch.rand(20), torch.randint(0, 2, (20,))


def several() -> tuple[torch.Tensor, ...]:
    return torch.rand(20, 4), torch.randint(0, 2, (20, 4))


def numbers() -> tuple[torch.Tensor, ...]:
    x = torch.rand(20) + 0.1
    return x, x + 0.1 * torch.rand(20)


def images() -> tuple[torch.Tensor, ...]:
    x = torch.rand(2, 3, 24, 24)
    return x, (x + 0.1 * torch.rand_like(x)).clamp(0, 1)


def sounds() -> tuple[torch.Tensor, ...]:
    x = torch.randn(2, 400)
    return x, x + 0.1 * torch.randn(2, 400)


def retrieved() -> tuple[torch.Tensor, ...]:
    return torch.rand(20), torch.randint(0, 2, (20,)), torch.arange(20) // 5


def one() -> tuple[torch.Tensor, ...]:
    return (torch.rand(20),)


def logits() -> tuple[torch.Tensor, ...]:
    return torch.randn(2, 6, 11), torch.randint(0, 11, (2, 6))


def clusters() -> tuple[torch.Tensor, ...]:
    return torch.randint(0, 4, (30,)), torch.randint(0, 4, (30,))


METRICS: dict[str, tuple[Callable[[], Any], Batch]] = {
    "accuracy": (lambda: T.Accuracy("multiclass", num_classes=5), classes),
    "accuracy of the best 2": (lambda: T.Accuracy("multiclass", num_classes=5, top_k=2), classes),
    "precision": (lambda: T.Precision("multiclass", num_classes=5, average="macro"), classes),
    "recall": (lambda: T.Recall("multilabel", num_labels=4), several),
    "F1": (lambda: T.F1Score("multiclass", num_classes=5, average=None), classes),
    "AUROC": (lambda: T.AUROC("binary"), two),
    "AUROC of thresholds": (lambda: T.AUROC("multiclass", num_classes=5, thresholds=10), classes),
    "average precision": (lambda: T.AveragePrecision("multilabel", num_labels=4), several),
    "precision-recall curve": (lambda: T.PrecisionRecallCurve("binary"), two),
    "ROC": (lambda: T.ROC("multiclass", num_classes=5, thresholds=8), classes),
    "confusion matrix": (lambda: T.ConfusionMatrix("multiclass", num_classes=5), classes),
    "calibration": (lambda: T.CalibrationError("binary", n_bins=5), two),
    "Cohen's kappa": (lambda: T.CohenKappa("multiclass", num_classes=5), classes),
    "Matthews": (lambda: T.MatthewsCorrCoef("binary"), two),
    "Jaccard": (lambda: T.JaccardIndex("multiclass", num_classes=5), classes),
    "mean squared error": (T.MeanSquaredError, numbers),
    "R2": (T.R2Score, numbers),
    "Pearson": (T.PearsonCorrCoef, numbers),
    "Spearman": (T.SpearmanCorrCoef, numbers),
    "Kendall": (T.KendallRankCorrCoef, numbers),
    "explained variance": (T.ExplainedVariance, numbers),
    "concordance": (T.ConcordanceCorrCoef, numbers),
    "cosine similarity": (lambda: T.CosineSimilarity(reduction="mean"), lambda: (torch.randn(8, 4), torch.randn(8, 4))),
    "KL divergence": (T.KLDivergence, lambda: (torch.rand(8, 4).softmax(-1), torch.rand(8, 4).softmax(-1))),
    "PSNR": (lambda: T.image.PeakSignalNoiseRatio(data_range=1.0), images),
    "SSIM": (lambda: T.image.StructuralSimilarityIndexMeasure(data_range=1.0), images),
    "total variation": (T.image.TotalVariation, lambda: images()[:1]),
    "UQI": (T.image.UniversalImageQualityIndex, images),
    "signal-noise ratio": (T.audio.SignalNoiseRatio, sounds),
    "SI-SDR": (T.audio.ScaleInvariantSignalDistortionRatio, sounds),
    "SDR": (T.audio.SignalDistortionRatio, sounds),
    "retrieval MAP": (T.retrieval.RetrievalMAP, retrieved),
    "retrieval NDCG": (T.retrieval.RetrievalNormalizedDCG, retrieved),
    "perplexity": (T.text.Perplexity, logits),
    "mutual information": (T.clustering.MutualInfoScore, clusters),
    "rand score": (T.clustering.RandScore, clusters),
    "mean": (T.MeanMetric, one),
    "concatenation": (T.CatMetric, one),
    "running mean": (lambda: T.RunningMean(2), one),
}
QUICK = ("accuracy", "confusion matrix")
# Sums with many equal terms differ in their order, and SDR solves a linear system in float64.
LOOSE = {"SDR": 1e-3}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.matrix) for name in METRICS]
)
def test_a_metric_has_the_cpus_value(name: str) -> None:
    make, batch = METRICS[name]

    def program(device: str) -> Any:
        metric = make().to(device)
        for _ in range(3):
            arguments = [part.to(device) for part in batch()]
            kept = {"indexes": arguments.pop()} if batch is retrieved else {}
            metric.update(*arguments, **kept)
        assert metric.device.type == device
        return metric.compute()

    on_both(program, rtol=LOOSE.get(name, 1e-4))


def collection() -> MetricCollection:
    return MetricCollection(
        {
            "accuracy": T.Accuracy("multiclass", num_classes=5),
            "recall": T.Recall("multiclass", num_classes=5, average="macro"),
            "auroc": T.AUROC("multiclass", num_classes=5),
        }
    )


def test_a_collection_keeps_its_state() -> None:
    """The state goes through forward, a state dict, a move to the CPU and back, and a reset."""

    def program(device: str) -> Any:
        metrics = collection().to(device)
        metrics.persistent(mode=True)
        each = []
        for _ in range(2):
            scores, labels = (part.to(device) for part in classes())
            each.append(metrics(scores, labels))
        other = collection().to(device)
        other.persistent(mode=True)
        other.load_state_dict(metrics.state_dict())
        metrics.to("cpu").to(device)
        total = metrics.compute()
        metrics.reset()
        return each, total, other["recall"].compute(), len(metrics["auroc"].metric_state["preds"])

    on_both(program)


def test_tensors_of_two_devices_are_refused() -> None:
    metric = T.Accuracy("multiclass", num_classes=5, average=None).to(DEVICE)
    with pytest.raises(RuntimeError, match="device"):
        metric.update(*classes())
