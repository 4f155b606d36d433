"""Commands in containers: the backend `podman`, and the section of tools over it."""
