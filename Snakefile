include: "workflow/Snakefile"


# Snakemake ignores `default_target` in an included file, so it is set here.
workflow.default_target = "all"
