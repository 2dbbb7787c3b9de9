import multiprocessing

import pytest

from drgcn.studies.reproduce.job import run_job

from .small_plan import small_jobs, without_times

# Processes that tests kill are forked from one that has read everything already.
multiprocessing.get_context("forkserver").set_forkserver_preload(["drgcn.studies.reproduce.job"])


@pytest.fixture(scope="session")
def uninterrupted(tmp_path_factory):
    """What the small plan comes to, job after job in this very process."""
    out = tmp_path_factory.mktemp("uninterrupted")
    for job in small_jobs():
        run_job(job, out)
    return without_times(out)
