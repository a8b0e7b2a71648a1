FROM python:3.13-slim
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /srv/jiyi
COPY pyproject.toml requirements.lock README.md LICENSE ./
COPY jiyi/__init__.py jiyi/
RUN pip install --no-cache-dir --constraint requirements.lock ".[service,local,proxy]" && pip uninstall --yes jiyi
COPY . .
RUN python -m tools.translations --compile
RUN useradd --system jiyi
USER jiyi
ENV PYTHONPATH=/srv/jiyi
CMD ["python", "-m", "workers.procfile"]
