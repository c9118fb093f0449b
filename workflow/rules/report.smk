# Write HTML pages about the corpus, the tokenizer and the training. `snakemake --report` collects the pages. It can
# show only inputs and outputs of rules, so the targets have the pages as inputs.

CORPUS_PAGE = page(
    f"{RUN.report}/corpus.html",
    "../report/corpus.rst",
    "Data",
    "Corpus: what was removed and why",
)
TOKENIZER_PAGE = page(
    f"{RUN.report}/tokenizer.html",
    "../report/tokenizer.rst",
    "Data",
    "Tokenizer: tokens per language",
)
TRAINING_PAGE = page(
    f"{RUN.report}/training.html",
    "../report/training.rst",
    "Model",
    "Training: losses, schedule, speed",
)
PARITY_PAGE = page(
    f"{RUN.export}/{MODEL}/parity.json",
    "../report/parity.rst",
    "Model",
    "Parity with the training's logits",
)


rule report_corpus:
    input:
        config="<run>/config/judge.json",
        parts="<run>/config/parts.json",
        raw=every_shard("<run>/corpus/raw/{source}/{part}.parquet"),
        quarantine=every_shard("<run>/corpus/quarantine/{source}/{part}.jsonl"),
        measures=every_shard("<run>/corpus/measures/{source}/{part}.parquet"),
        verdicts=every_shard("<run>/corpus/verdicts/{source}/{part}.parquet"),
        duplicates=collect(
            "<run>/corpus/duplicates/resolved-{partition}.parquet",
            partition=PARTITIONS,
        ),
        clean=every_shard("<run>/corpus/clean/{source}/{part}.parquet"),
        mixture="<run>/corpus/mixture.json",
    output:
        "<run>/results/report/corpus.json",
    log:
        "<logs>/report_corpus.log",
    benchmark:
        "<benchmarks>/report_corpus.tsv"
    conda:
        "../envs/bloomery.yaml"
    resources:
        **job("report_corpus"),
    params:
        corpus=run_folder("corpus"),
    message:
        "report on the corpus"
    shell:
        "bloomery report corpus --corpus {params.corpus:q} --parts {input.parts:q} --config {input.config:q}"
        " --result {output:q} > {log:q} 2>&1"


# If a reference tokenizer is on a Hub, this job needs the Internet.
rule report_tokenizer:
    input:
        config="<run>/config/tokenizer_report.json",
        tokenizer="<run>/results/tokenizer.json",
        parts="<run>/config/parts.json",
        clean=every_shard("<run>/corpus/clean/{source}/{part}.parquet"),
        counts=(
            []
            if EXISTING_TOKENIZER
            else every_shard("<run>/tokenizer/counts/{source}/{part}.parquet")
        ),
    output:
        "<run>/results/report/tokenizer.json",
    log:
        "<logs>/report_tokenizer.log",
    benchmark:
        "<benchmarks>/report_tokenizer.tsv"
    localrule: ONLINE is None and not PLAN.references_are_local
    conda:
        "../envs/bloomery.yaml"
    resources:
        **job("report_tokenizer", place=None if PLAN.references_are_local else ONLINE),
    params:
        tokenizer=run_folder("tokenizer"),
        corpus=run_folder("corpus"),
        counts=lambda wildcards: (
            [] if EXISTING_TOKENIZER else ["--counts", RUN.tokenizer / "counts"]
        ),
    message:
        "report on the tokenizer"
    shell:
        "bloomery tokenizer report --tokenizer {params.tokenizer:q} --config {input.config:q} --corpus {params.corpus:q}"
        " --parts {input.parts:q} {params.counts:q} --result {output:q} > {log:q} 2>&1"


rule report_training:
    input:
        "<run>/train/finished.json",
    output:
        "<run>/results/report/training.json",
    log:
        "<logs>/report_training.log",
    benchmark:
        "<benchmarks>/report_training.tsv"
    conda:
        "../envs/bloomery.yaml"
    resources:
        **fixed_job(mem_mb=2000, runtime=60),
    params:
        run=run_folder(),
    message:
        "report on the training"
    shell:
        "bloomery monitor plots --run {params.run:q} --result {output:q} > {log:q} 2>&1"
