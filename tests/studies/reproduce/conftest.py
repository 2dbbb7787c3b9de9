import multiprocessing

import pytest

from drgcn.studies.reproduce.backend import run_job

from .small_plan import small_jobs, without_times

# Most worker processes of tests are forked from one that has imported everything already: a
# spawned one takes seconds to start.
multiprocessing.get_context("forkserver").set_forkserver_preload(
    ["drgcn.studies.reproduce.processes"]
)


@pytest.fixture(scope="session")
def uninterrupted(tmp_path_factory):
    """What the small plan comes to, job after job in this very process."""
    out = tmp_path_factory.mktemp("uninterrupted")
    for job in small_jobs():
        run_job(job, out)
    return without_times(out)
