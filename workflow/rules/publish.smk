# Publish model and logs to a Hub if one is configured, otherwise to a local folder of the same layout. A model without
# a parity.json is not published. Both rules run on the machine of the workflow, unless the site's file has a section
# `internet`, because compute nodes often have no Internet.


rule publish_run:
    input:
        config="<run>/config/publish.json",
        model=f"<run>/results/export/{MODEL}.json",
        finished="<run>/train/finished.json",
    output:
        f"<run>/results/publish/{MODEL}.json",
    log:
        "<logs>/publish_run.log",
    benchmark:
        "<benchmarks>/publish_run.tsv"
    localrule: ONLINE is None
    conda:
        "../envs/bloomery.yaml"
    resources:
        **fixed_job(mem_mb=2000, runtime=240, place=ONLINE),
    params:
        run=run_folder(),
    message:
        "publish the model {MODEL}"
    shell:
        "bloomery publish run --config {input.config:q} --run {params.run:q} --result {output:q} > {log:q} 2>&1"


# This rule makes the last sync of the logs. `bloomery watch` makes the earlier syncs while the workflow runs (see
# `WorkflowSession.start`).
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
        "<run>/results/logs.json",
    log:
        "<logs>/sync_logs.log",
    benchmark:
        "<benchmarks>/sync_logs.tsv"
    localrule: ONLINE is None
    conda:
        "../envs/bloomery.yaml"
    resources:
        **fixed_job(mem_mb=2000, runtime=240, place=ONLINE),
    params:
        run=run_folder(),
    message:
        "publish the logs of the training of {MODEL}"
    shell:
        "bloomery sync --run {params.run:q} --wait-seconds 1800 --result {output:q} > {log:q} 2>&1"


rule publish:
    input:
        rules.export.input,
        rules.publish_run.output,
        rules.sync_logs.output,
    message:
        "publish: every output exists"
