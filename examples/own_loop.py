"""Run a model over TRACE with a loop of one's own: python examples/own_loop.py RELEASE VIDEO_ROOT."""

import json
import sys

import trace_hf
from trace_hf import harness

STEP_S = 5.0


def model(system: str | None, prompt: str, images: list) -> str:
    """Put a model here: it gets a system text or none, the prompt, and the frames up to the moment it is asked."""
    return "A" if system is None else "WAIT"


def qa(config: str, release: str, video_root: str) -> dict:
    """Ask once a record. The full records are for this loop, never for the model."""
    population, answers = harness.open_population(config, release), {}
    for row in trace_hf.load(config, release=release, view="model_input"):
        images = harness.images(population.records[row["record_id"]], video_root)
        answers[row["record_id"]] = model(None, harness.qa_prompt(row), images)
    return {"run": population.facts(), **harness.score_qa(population.records.values(), answers)}


def proactive(config: str, release: str, video_root: str) -> dict:
    """Ask at every polling time, each time with the evidence up to it."""
    population, outcomes = harness.open_population(config, release), {}
    for row in trace_hf.load(config, release=release, view="model_input"):
        record, said = population.records[row["record_id"]], []
        for time_s in harness.polling_times(record, STEP_S):
            images = harness.images(record, video_root, time_s)
            text = model(harness.proactive_system(), harness.proactive_prompt(row), images)
            said.append({"time_s": time_s, "text": text})
        outcomes[row["record_id"]] = harness.proactive_outcome(record, said, step_s=STEP_S)
    scores = harness.score_proactive(population.records.values(), outcomes, step_s=STEP_S)
    return {"run": population.facts(step_s=STEP_S), **scores}


json.dump([qa("qa_tiny", *sys.argv[1:3]), proactive("proactive_tiny", *sys.argv[1:3])], sys.stdout, indent=2)
