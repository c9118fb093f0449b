"""Turn the result of each benchmark into rows of docs/benchmarks.md. Each function is named after its benchmark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

GIB = 1 << 30
ASKED_DIVERGENCE = (31_000, "linear", 300)
"""Iteration, shape and duration of the divergence from a loss of 2.2 to 3.0 in 300 iterations."""


class Row(NamedTuple):
    """One row of the table."""

    claim: str
    limit: str
    measured: str
    peer: str = ""
    """Text about the peer: its name, its conditions and its results. Empty for a benchmark without a peer."""


Result = Any
"""Content of a result file."""


def floor(result: Result, start: str) -> float:
    """Return the required minimum of the measured figure whose description begins with `start`."""
    return next(float(each["floor"]) for each in result["floors"] if each["what"].startswith(start))


def median(result: Result, name: str) -> float:
    """Return the median speed of a contender in MB/s."""
    return float((result.get("megabytes_per_core_second") or result["megabytes_per_second_one_core"])[name]["median"])


def times(spread: dict[str, float]) -> str:
    """Format a ratio with its spread: `86 times (84 to 88)`."""
    shown = [f"{spread[name]:.3g}" for name in ("median", "least", "greatest")]
    return f"{shown[0]} times ({shown[1]} to {shown[2]})"


def words_of(peer: dict[str, str]) -> str:
    """Return a phrase that says how the peer splits words, or an empty text if the result does not state it."""
    return f", words split by {peer['words']}" if "words" in peer else ""


def peer_on_same_texts(result: Result, part: str) -> str:
    """Return the text about a peer that ran on the same texts. `part` names the part of the peer that was timed."""
    peer = result["peer"]
    return (
        f"{peer['name']}, {part}{words_of(peer)}: {median(result, 'peer'):.2g} MB/s on "
        f"{result['megabytes_with_peer']} MB, ours is {times(result['times_faster'])} as fast on the same texts"
    )


def workflow(result: Result) -> Iterator[Row]:
    """Yield the rows of bench/workflow.py."""
    limits = result["limits"]
    limit = f"{limits['seconds'] / 60:.0f} min, {limits['pss_bytes'] / GIB:.0f} GiB"
    measured = f"{result['seconds']:.0f} s, {result['pss_bytes'] / GIB:.1f} GiB"
    yield Row("`make run` after the installation, two cores; memory is the PSS of all processes", limit, measured)
    yield Row("a second run with nothing to do", f"{limits['rerun_seconds']:.0f} s", f"{result['rerun_seconds']} s")


def startup(result: Result) -> Iterator[Row]:
    """Yield the rows of bench/startup.py."""
    for name, limit in result["limit_seconds"].items():
        shown = f"`{name}`" + (" of BLOOM-176B" if name.endswith("plan") else "")
        yield Row(shown, f"{limit} s", f"{result['seconds'][name]['median']:.2f} s")


def status(result: Result) -> Iterator[Row]:
    """Yield the row of bench/status.py."""
    megabytes = result["metrics_bytes"]["long"] / 1e6
    seconds = result["seconds"]
    yield Row(
        f"`bloomery status` of a run with {megabytes:.0f} MB of metrics",
        f"{result['limits']['seconds']} s",
        f"{seconds['status, long']['median']:.2f} s",
        f"a run with {result['metrics_bytes']['short'] / 1e6:.2f} MB: {seconds['status, short']['median']:.2f} s",
    )


def divergence(result: Result) -> Iterator[Row]:
    """Yield the rows of bench/divergence.py."""
    limited = [each for each in result["divergences"] if each["limited"]]
    (asked,) = (each for each in limited if (each["iteration"], each["shape"], each["duration"]) == ASKED_DIVERGENCE)
    yield Row(
        "number of slow divergences that are found before the loss has risen by 10 %, of 20 simulated ones with "
        f"BLOOM's full batch; the smallest number over {len(limited)} shapes and positions",
        f"{result['limits']['found_of_20']}",
        f"{min(each['found_of_20'] for each in limited)}; {asked['found_of_20']} for a rise from 2.2 to 3.0 in 300 "
        f"iterations, found when the loss has risen by {100 * asked['rise_at_alarm']['median']:.1f} % (median)",
        f"the spike detector finds {result['found_by_the_spike_detector_of_20']} of 20 for the same rise",
    )
    yield Row(
        f"false alarms of divergence per 100,000 healthy iterations; {result['healthy_iterations']:,} were simulated",
        f"{result['limits']['false_alarms_per_100000']:g}",
        f"{result['false_alarms_per_100000']:g}",
    )


def sync(result: Result) -> Iterator[Row]:
    """Yield the rows of bench/sync.py."""
    xet, whole, limits = result["xet"], result["without_xet"], result["limits"]
    yield Row(
        f"a sync of {xet['logs_bytes'] / 1e6:.0f} MB of logs, {result['iterations']['appended']} iterations later",
        f"{100 * limits['appended_share']:.0f} % of the logs",
        f"{xet['appended']['bytes'] / 1e3:.0f} kB with Xet",
        f"the same sync without Xet: {whole['appended']['bytes'] / 1e6:.0f} MB",
    )
    unchanged = xet["unchanged"]
    yield Row(
        "a sync with nothing new",
        f"{limits['unchanged_requests']} requests",
        f"{unchanged['requests']} requests, {unchanged['bytes']} bytes in their bodies",
    )


def init_estimate(result: Result) -> Iterator[Row]:
    """Yield the row of bench/init_estimate.py."""
    shown = ", ".join(
        f"{name} {100 * each['error']:+.0f} % of {each['real_seconds']:.0f} s"
        for name, each in result["shapes"].items()
    )
    yield Row("duration that `bloomery init` estimates, three shapes", f"within {100 * result['floor']:.0f} %", shown)


def first_token(result: Result) -> Iterator[Row]:
    """Yield the row of bench/first_token.py."""
    yield Row(
        f"from `bloomery init` to the end of the first iteration, {result['languages']} languages, "
        f"{result['megabytes_compressed']:.0f} MB compressed",
        f"{result['limit_seconds']:.0f} s",
        f"{result['seconds']:.0f} s, of which `init` {result['init_seconds']:.0f} s",
    )


def training_overhead(result: Result) -> Iterator[Row]:
    """Yield the row of bench/training_overhead.py."""
    seconds, (low, _, high) = result["median_seconds"], result["quartiles_seconds"]["ours"]
    yield Row(
        f"overhead of the training loop ({result['layout']})",
        f"{result['floor_percent']:.0f} % by medians",
        f"{result['overhead_percent']:.1f} % by medians, {result['pairwise_overhead_percent_median']:.1f} % pairwise",
        f"bare DeepSpeed with the same JSON and network: {seconds['bare']:.1f} s a step, ours {seconds['ours']:.1f} s "
        f"(quartiles {low:.1f} to {high:.1f} s, {result['pairs']} pairs; the noise exceeds the difference)",
    )


def planned_sizes(result: Result) -> Iterator[Row]:
    """Yield the row of bench/planned_sizes.py."""
    shapes = result["shapes"].values()
    largest = {what: max(abs(shape[what]["deviation"]) for shape in shapes) for what in ("checkpoint", "logs", "index")}
    shown = ", ".join(f"{what} {100 * deviation:.1f} %" for what, deviation in largest.items())
    yield Row(
        f"deviation of planned bytes from the files of real runs; {len(shapes)} runs with different layouts, "
        "precisions and optimizers, and 100 to 10,000 iterations",
        f"within {100 * result['limit']:.0f} %",
        f"greatest deviation: {shown}",
    )


def save_comparison(result: Result) -> Iterator[Row]:
    """Yield the row of bench/save_comparison.py."""
    seconds = result["median_seconds"]
    yield Row(
        f"comparison of replicas before a save ({result['parameters'] / 1e6:.0f} M parameters, {result['layout']})",
        f"{result['ceiling_percent']:.0f} % of the save",
        f"{result['compare_percent_of_save']:.1f} %: {seconds['compare']:.2f} s of {seconds['save']:.1f} s",
    )


def training_speed(result: Result) -> Iterator[Row]:
    """Yield the row of bench/training_speed.py."""
    speeds = result["tokens_per_second"]
    yield Row(
        f"a training step of one CPU process, bf16 ({result['shape']})",
        f"{result['floor']} times the peer",
        f"{speeds['ours']:,.0f} tokens/s",
        f"transformers' `BloomForCausalLM` in a plain PyTorch loop: {speeds['transformers']:,.0f} tokens/s; ours is "
        f"{times(result['ratio'])} as fast ({result['pairs']} pairs)",
    )


def training_layouts(result: Result) -> Iterator[Row]:
    """Yield the row of bench/training_layouts.py."""
    (base, one), *others = result["layouts"].items()
    shown = "; ".join(f"{name.replace(' x ', ', ')}: {100 * each['efficiency']:.0f} %" for name, each in others)
    yield Row(
        f"ranks over gloo that share two cores ({result['shape']})",
        "none",
        shown,
        f"one process with two threads ({base}): {one['tokens_per_second']:,.0f} tokens/s = 100 %",
    )


def text_kernel(result: Result) -> Iterator[Row]:
    """Yield the rows of bench/text_kernel.py."""
    for name, limit in result["floors_megabytes_per_second"].items():
        speed, peer = result["megabytes_per_second_one_core"][name], result["peer"]
        theirs = f"{peer['name']}: {peer['megabytes_per_second']} MB/s on {peer['megabytes']} MB; the values are equal"
        yield Row(
            f"text kernel, `{name}`, one core", f"{limit:.0f} MB/s", f"{speed:.0f} MB/s", theirs * (name == "measure")
        )


def corpus_filters(result: Result) -> Iterator[Row]:
    """Yield the row of bench/corpus_filters.py."""
    yield Row(
        "measure and judge without language identification, one core",
        f"{floor(result, 'filters_all'):.0f} MB/s, {floor(result, 'times'):.0f} times the peer",
        f"{median(result, 'filters_all'):.0f} MB/s; with keys and files {median(result, 'jobs_all'):.0f} MB/s",
        peer_on_same_texts(result, "Gopher and FineWeb filters"),
    )


def corpus_minhash(result: Result) -> Iterator[Row]:
    """Yield the row of bench/corpus_minhash.py."""
    yield Row(
        "MinHash signatures, 14 bands of 8 rows, one core",
        f"{floor(result, 'ours_all'):.0f} MB/s, {floor(result, 'times'):.0f} times the peer",
        f"{median(result, 'ours_all'):.0f} MB/s",
        peer_on_same_texts(result, "MinhashDedupSignature"),
    )


def corpus_langid(result: Result) -> Iterator[Row]:
    """Yield the row of bench/corpus_langid.py."""
    yield Row(
        "language identification, one core",
        f"{floor(result, 'ours'):.0f} MB/s",
        f"{median(result, 'ours'):.0f} MB/s",
        f"`{result['peer']['name']}` alone, which is one part of ours: {median(result, 'peer'):.0f} MB/s",
    )


def langid_accuracy(result: Result) -> Iterator[Row]:
    """Yield the row of bench/langid_accuracy.py."""
    languages = result["languages"].keys() - {"zht"}  # Chinese counts once.
    yield Row(
        f"paragraphs of {len(languages)} languages that keep their right label "
        "([per language](language-identification.md#accuracy))",
        f"{result['floor']:.0f} %",
        f"{result['mean_percent']:.1f} %",
    )


def corpus_exact(result: Result) -> Iterator[Row]:
    """Yield the row of bench/corpus_exact.py."""
    counts = result["counts"]
    yield Row(
        "exact duplicates, one core",
        f"{floor(result, 'ours'):.0f} MB/s",
        f"{median(result, 'ours'):.0f} MB/s, {counts['duplicates']:,} duplicates",
        f"{result['peer']['name']}: {median(result, 'peer'):.0f} MB/s, {counts['peer_duplicates']:,} duplicates",
    )


def corpus_ingest(result: Result) -> Iterator[Row]:
    """Yield the row of bench/corpus_ingest.py."""
    yield Row(
        "ingest of jsonl.zst, one core",
        f"{floor(result, 'ours'):.0f} MB/s",
        f"{median(result, 'ours'):.0f} MB/s",
        f"{result['peer']['name']} (snappy): {median(result, 'peer'):.0f} MB/s",
    )


def corpus_memory(result: Result) -> Iterator[Row]:
    """Yield the row of bench/corpus_memory.py."""
    peak = max(value for scales in result["peak_mib"].values() for value in scales.values())
    sizes = [value / 1e3 for value in result["megabytes"].values()]
    left, flat = result["floors"]
    yield Row(
        f"memory of any job of the corpus, {min(sizes)} to {max(sizes)} GB of text",
        f"{peak + left['measured']:.0f} MiB",
        f"{peak:.0f} MiB; {flat['measured']} of {flat['floor']} jobs do not grow with the input, apart from the "
        f"{result['dedup_memory_mib']} MiB of `dedup.memory_bytes`",
    )


def bpe_train(result: Result) -> Iterator[Row]:
    """Yield the row of bench/bpe_train.py."""
    ours, peer = result["ours"], result["peer"]
    faster = peer["seconds_training_only"] / ours["seconds_training_only"]
    yield Row(
        f"{result['merges']:,} merges from {result['pieces']:,} different pieces",
        f"{floor(result, 'times faster'):.0f} times as fast as the peer, "
        f"1/{floor(result, 'times less'):.0f} of its memory",
        f"{ours['seconds_training_only']:.0f} s, {ours['peak_megabytes']:,} MB, one core",
        f"{peer['name']}, all cores: {peer['seconds_training_only']:.0f} s, {peer['peak_megabytes']:,} MB; ours is "
        f"{faster:.1f} times as fast ({'the same merges' if result['same_merges'] else 'other merges'}; times without "
        "reading the counts)",
    )


def tokenizer_count(result: Result) -> Iterator[Row]:
    """Yield a row of bench/tokenizer_count.py for each pre-tokenizer."""
    for name, ratio in result["times_faster"].items():
        yield Row(
            f"counting pre-tokens, pre-tokenizer `{name}`, one core",
            f"{floor(result, f'job_all_{name}'):.0f} MB/s",
            f"{median(result, f'job_all_{name}'):.0f} MB/s with files",
            f"`tokenizers`, the split alone: {median(result, f'tokenizers_{name}')} MB/s on "
            f"{result['peer_megabytes']:.0f} MB; our kernel is {times(ratio)} as fast on the same texts",
        )


def encode(result: Result) -> Iterator[Row]:
    """Yield the row of bench/encode.py."""
    yield Row(
        f"encoding with {result['vocabulary']:,} tokens, one core",
        f"{floor(result, 'ours_all'):.0f} MB/s, {floor(result, 'times faster'):.0f} times the peer",
        f"{median(result, 'ours_all'):.0f} MB/s",
        f"`tokenizers`, one thread: {median(result, 'tokenizers')} MB/s on {result['peer_megabytes']:.0f} MB; ours is "
        f"{times(result['times_faster'])} as fast ({'the same ids' if result['same_ids'] else 'other ids'})",
    )


def index(result: Result) -> Iterator[Row]:
    """Yield the row of bench/index.py, for its largest run."""
    run = max(result["runs"], key=lambda each: each["documents"])
    yield Row(
        f"an index of {run['samples'] / 1e6:.1f} M samples over {run['documents'] / 1e6:.0f} M documents, cold files",
        f"{run['limit_seconds']:.0f} s, {run['limit_bytes'] / 1e9:.0f} GB",
        f"{run['seconds']:.0f} s, {run['peak_rss_bytes'] / 1e9:.1f} GB",
    )


def export(result: Result) -> Iterator[Row]:
    """Yield the rows of bench/export.py."""
    wide, flat, peer, shares, limits = (result[name] for name in ("wide", "flat", "peer", "shares", "limits"))
    seconds = wide["seconds"]
    speed = wide["bytes"] / seconds["write"]
    yield Row(
        f"writing a model of {wide['bytes'] / 1e9:.1f} GB from TP 4 x PP 4, synced, against the disk's speed",
        f"at least {limits['of_disk']:.0%}",
        f"{shares['of_disk']:.0%}: {speed / 1e6:.0f} MB/s in {seconds['write']:.0f} s, largest memory of the export "
        f"{wide['peak_bytes'] / 1e9:.1f} GB",
        f"{peer['name']}: {peer['seconds']:.0f} s, {peer['peak_bytes'] / 1e9:.1f} GB",
    )
    yield Row(
        "the whole export, against its writing; samples of 128 tokens",
        f"{limits['all_by_writing']} times",
        f"{shares['all_by_writing']:.2f} times: the proof took {seconds['prove']:.0f} s on cores that compute "
        f"{result['fp32_flops'] / 1e9:.0f} GFLOPS in fp32",
    )
    few, many = flat
    yield Row(
        f"memory of an export of {many['layers']} layers, against {few['layers']} layers",
        f"at most {limits['growth']:.0%} more",
        f"{shares['growth']:+.1%}: {few['peak_bytes'] / 1e9:.2f} and {many['peak_bytes'] / 1e9:.2f} GB",
    )


def dropout(result: Result) -> Iterator[Row]:
    """Yield a row of bench/dropout.py for each precision."""
    for precision, found in result["precisions"].items():
        low, _, high = found["ratio_quartiles"]
        yield Row(
            f"a training step with dropout 0.1, against one without, in {precision} ({result['shape']})",
            f"at most {result['limit']} times",
            f"{found['ratio']:.2f} times (quartiles of {result['pairs']} pairs: {low:.2f} and {high:.2f}); attention "
            f"{found['attention']['with']} against {found['attention']['without']}",
        )


def lamb(result: Result) -> Iterator[Row]:
    """Yield the rows of bench/lamb.py."""
    ratios, seconds = result["ratio_quartiles"], result["seconds_quartiles"]
    low, _, high = ratios["lamb"]
    peers = "; ".join(f"{name}: {ratios[name][1]:.1f} times" for name in ("timm", "loop") if name in ratios)
    yield Row(
        f"a step of LAMB with {result['parameters'] / 1e6:.0f} M parameters on {result['threads']} threads, against "
        "torch's fused AdamW",
        f"at most {result['limit']} times",
        f"{result['ratio']:.2f} times (quartiles {low:.2f} and {high:.2f}): {seconds['lamb'][1]:.2f} s",
        peers,
    )
    if (difference := result["greatest_difference_from_timm"]) is not None:
        yield Row("ten steps of LAMB in fp32, against timm's", "differences of at most 1e-6", f"{difference:.1e}")


def blend(result: Result) -> Iterator[Row]:
    """Yield a row of bench/blend.py for each number of datasets, from the run with the most samples."""
    largest: dict[str, tuple[int, Any]] = {}
    for name, run in result["runs"].items():
        datasets, samples = name.split(", ")
        largest[datasets] = max(
            largest.get(datasets, (0, None)), (int(samples.split()[0]), run), key=lambda each: each[0]
        )
    for datasets, (samples, run) in largest.items():
        yield Row(
            f"a blend of {samples / 1e6:.1f} M samples over {datasets}",
            f"{samples / 1e6 / floor(result, datasets):.0f} s",
            f"{run['ours']['seconds']:.1f} s, {run['ours']['peak_rss_bytes'] / 1e6:.0f} MB",
            f"Megatron-core's greedy blend: {run['megatron']['seconds']:.1f} s, "
            f"{run['megatron']['peak_rss_bytes'] / 1e6:,.0f} MB",
        )
