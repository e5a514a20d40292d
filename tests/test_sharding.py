"""Evaluation on many nodes: every record goes to exactly one of them, always the same one, and shares are even."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from datasets.distributed import split_dataset_by_node

import trace_hf


def ids(rows: Any) -> list[str]:
    return [row["record_id"] for row in rows]


def check_shares(shares: list[list[str]], everything: list[str]) -> None:
    """Shares are disjoint, complete, and of the same size but for one row."""
    together = [record_id for share in shares for record_id in share]
    assert len(together) == len(set(together))
    assert sorted(together) == sorted(everything)
    sizes = [len(share) for share in shares]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("world", [1, 3, 8])
@pytest.mark.parametrize("form", ["prepared", "streamed", "sharded"])
def test_every_record_goes_to_one_node(small_sample: Path, form: str, world: int) -> None:
    def rows() -> Any:
        if form == "streamed":
            return trace_hf.load("qa", release=small_sample, streaming=True)
        loaded = trace_hf.load("qa", release=small_sample)
        return loaded if form == "prepared" else loaded.to_iterable_dataset(num_shards=8)

    everything = ids(rows())
    shares = [ids(split_dataset_by_node(rows(), rank=rank, world_size=world)) for rank in range(world)]
    check_shares(shares, everything)
    again = [ids(split_dataset_by_node(rows(), rank=rank, world_size=world)) for rank in range(world)]
    assert shares == again
    order = {record_id: index for index, record_id in enumerate(everything)}
    assert all(share == sorted(share, key=order.__getitem__) for share in shares), "the release's order is kept"


@pytest.mark.parametrize("num_shards", [1, 4, 10])
def test_shards_are_even_and_in_order(sample_release: Path, num_shards: int) -> None:
    rows = trace_hf.load("qa", release=sample_release).select_columns(["record_id"])
    sharded = rows.to_iterable_dataset(num_shards=num_shards)
    assert ids(sharded) == rows["record_id"][:]
    shares = [ids(split_dataset_by_node(sharded, rank=index, world_size=num_shards)) for index in range(num_shards)]
    check_shares(shares, rows["record_id"][:])
    assert [record_id for share in shares for record_id in share] == rows["record_id"][:]


def test_shares_keep_what_the_rows_came_from(small_sample: Path) -> None:
    rows = trace_hf.load("qa", release=small_sample)
    stream = trace_hf.load("qa", release=small_sample, streaming=True)
    for form in (rows, stream):
        assert trace_hf.provenance(split_dataset_by_node(form, rank=1, world_size=3)) == trace_hf.provenance(rows)


def test_gathered_shares_attest(small_sample: Path) -> None:
    rows = trace_hf.load("proactive", release=small_sample)
    shares = [list(split_dataset_by_node(rows, rank=rank, world_size=4)) for rank in range(4)]
    gathered = [row for share in reversed(shares) for row in share]
    assert trace_hf.attest(gathered, "proactive", release=small_sample).ok
    assert not trace_hf.attest(gathered[1:], "proactive", release=small_sample).ok


@pytest.mark.slow
def test_shards_of_a_hundredfold_sample(tmp_path: Path) -> None:
    trace_hf.write_sample(tmp_path / "large", scale=100)
    rows = trace_hf.load("proactive", release=tmp_path / "large").select_columns(["record_id"])
    everything = rows["record_id"]
    assert len(everything) == 41_500
    for world in (8, 24):
        nodes = [split_dataset_by_node(rows, rank=rank, world_size=world) for rank in range(world)]
        check_shares([list(node["record_id"]) for node in nodes], list(everything))
        sharded = rows.to_iterable_dataset(num_shards=2 * world)
        check_shares(
            [ids(split_dataset_by_node(sharded, rank=rank, world_size=world)) for rank in range(world)],
            list(everything),
        )
    stream = trace_hf.load("proactive", release=tmp_path / "large", streaming=True).select_columns(["record_id"])
    check_shares([ids(split_dataset_by_node(stream, rank=rank, world_size=3)) for rank in range(3)], list(everything))


_LOADER = """
import json, sys, warnings
warnings.simplefilter("ignore")
import trace_hf
from datasets.distributed import split_dataset_by_node
from torch.utils.data import DataLoader

def ids(rows, workers, batch=7):
    take = lambda rows: [row["record_id"] for row in rows]
    loader = DataLoader(rows, batch_size=batch, num_workers=workers, collate_fn=take)
    return [record_id for part in loader for record_id in part]

release = sys.argv[1]
stream = trace_hf.load("qa", release=release, streaming=True)
prepared = trace_hf.load("qa", release=release)
sharded = prepared.to_iterable_dataset(num_shards=8)
print(json.dumps({
    "due": prepared["record_id"][:],
    "stream": ids(stream, 4),
    "prepared": ids(prepared, 4),
    "sharded": ids(sharded, 4),
    "nodes": [ids(split_dataset_by_node(sharded, rank=rank, world_size=2), 4) for rank in range(2)],
    "stream nodes": [ids(split_dataset_by_node(stream, rank=rank, world_size=2), 4) for rank in range(2)],
}))
"""


@pytest.mark.slow
def test_data_loader_with_four_workers_gives_each_row_once(sample_release: Path) -> None:
    from environments import torch_python

    done = subprocess.run(
        [os.environ.get("TRACE_TEST_TORCH") or torch_python(), "-c", _LOADER, str(sample_release)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    due = found["due"]
    assert len(due) == 833
    assert found["prepared"] == due
    assert found["stream"] == due
    assert sorted(found["sharded"]) == sorted(due)
    check_shares(found["nodes"], due)
    check_shares(found["stream nodes"], due)
