# Model and logs go to a Hub when one is configured, else to a local folder of the same layout. No model without its proof.
# Both rules run where the workflow does, unless the site names a place with Internet: nodes of a cluster often have none.


rule publish_run:
    input:
        config="<run>/config/publish.json",
        parity=f"<run>/export/{MODEL}/parity.json",
        finished="<run>/train/finished.json",
    output:
        "<run>/published/publish.json",
    log:
        "<logs>/publish_run.log",
    benchmark:
        "<benchmarks>/publish_run.tsv"
    localrule: ONLINE is None
    conda:
        "../envs/bloomery.yaml"
    resources:
        **job(mem_mb=2000, runtime=240, place=ONLINE),
    params:
        run=run_folder(),
    message:
        "publish {MODEL}"
    shell:
        "bloomery publish run --config {input.config:q} --run {params.run:q} --output {output:q} 2>&1 | tee {log:q} >&2"


# The last sync; the ones before are `bloomery watch`, which runs beside the workflow (see `WorkflowSession.start`).
rule sync_logs:
    input:
        config="<run>/config/publish.json",
        finished="<run>/train/finished.json",
        reports=[
            rules.report_corpus.output if PARTS else [],
            rules.report_tokenizer.output if PARTS else [],
            rules.report_training.output,
        ],
    output:
        "<run>/published/logs.json",
    log:
        "<logs>/sync_logs.log",
    benchmark:
        "<benchmarks>/sync_logs.tsv"
    localrule: ONLINE is None
    conda:
        "../envs/bloomery.yaml"
    resources:
        **job(mem_mb=2000, runtime=240, place=ONLINE),
    params:
        run=run_folder(),
    message:
        "push the logs of {MODEL}"
    shell:
        "bloomery sync --run {params.run:q} --wait-seconds 1800 --output {output:q} 2>&1 | tee {log:q} >&2"


rule publish:
    input:
        rules.export.input,
        rules.publish_run.output,
        rules.sync_logs.output,
    message:
        "publish: everything is there"
