"""Ranks on a Ray cluster: the run ends with the weights of the unbroken run under torchrun."""

import os
import signal
import warnings

import pytest

from drgcn.recommend.distributed.group import read_attempts

from .commands import (
    FILES,
    check_restart,
    finish,
    start,
    under_way,
    wait_for_the_end_of,
    weights,
)

ray = pytest.importorskip("ray", reason="needs the extra cluster")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("ranks"),
    # Ray leaves sockets and pipes of its processes to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

NODE = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 80 * 1024**2}


@pytest.fixture(scope="module")
def cluster():
    """A head that runs no ranks, and three nodes with room for one each."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        made = Cluster(initialize_head=True, head_node_args={**NODE, "num_cpus": 0})
        try:
            for _ in range(3):
                made.add_node(**NODE)
            yield made
        finally:
            made.shutdown()


def begin(cluster, clicks, out, *more):
    return start(clicks, out, "--workers", 2, "--ray-address", cluster.address, *more)


def test_a_run_on_a_cluster_equals_one_under_torchrun(cluster, clicks, model, unbroken, tmp_path):
    out = tmp_path / "run"
    output = finish(begin(cluster, clicks, out, *model))
    (attempt,) = read_attempts(out)
    assert len({rank["ray_node"] for rank in attempt["ranks"]}) == 2
    assert weights(out) == unbroken
    assert "written to" in output
    assert sorted(path.name for path in out.iterdir()) == FILES


def test_a_killed_rank_changes_nothing(cluster, clicks, model, unbroken, tmp_path):
    out = tmp_path / "run"
    process = begin(cluster, clicks, out, *model)
    ranks = under_way(process, out)
    os.kill(ranks[1]["pid"], signal.SIGKILL)
    finish(process)
    check_restart(out, ranks)
    assert weights(out) == unbroken


def test_a_lost_node_changes_nothing(cluster, clicks, model, unbroken, tmp_path):
    out = tmp_path / "run"
    process = begin(cluster, clicks, out, *model)
    ranks = under_way(process, out)
    lost = ranks[0]["ray_node"]  # with the rank that writes checkpoints
    (node,) = (node for node in cluster.worker_nodes if node.node_id == lost)
    cluster.remove_node(node, allow_graceful=False)
    try:
        finish(process)
    finally:
        cluster.add_node(**NODE)
    again = check_restart(out, ranks)
    assert lost not in {rank["ray_node"] for rank in again}
    assert weights(out) == unbroken


def test_ranks_end_with_a_killed_command_which_then_goes_on(
    cluster, clicks, model, unbroken, tmp_path
):
    out = tmp_path / "run"
    process = begin(cluster, clicks, out, *model)
    ranks = under_way(process, out)
    process.kill()
    process.communicate(timeout=60)
    wait_for_the_end_of(ranks)
    finish(begin(cluster, clicks, out, *model))
    check_restart(out, ranks)
    assert weights(out) == unbroken


def test_what_cannot_run_is_one_sentence(cluster, clicks, tmp_path):
    out = tmp_path / "run"
    process = start(clicks, out, "--workers", 4, "--ray-address", cluster.address)
    output, _ = process.communicate(timeout=100)
    assert process.returncode == 2
    assert "Expected room for --workers 4" in output
    process = begin(cluster, clicks, out, "--day", 0)
    output, _ = process.communicate(timeout=200)
    assert process.returncode == 2
    assert "error: Expected clicks before day 0" in output
    assert list(out.iterdir()) == []
