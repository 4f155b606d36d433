"""The settings of containers, the table `[plugins.sandbox.options]` of the backend `podman`."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from toolstile_hookspecs import ConfigurationError
from toolstile_hookspecs.codecs import first_fault
from toolstile_plugins.sandbox.settings import SandboxSettings


class PodmanConfig(BaseModel):
    """The settings of the containers that commands run in; the limits are `SandboxSettings`.

    Args:
        image: The image, with a tag other than `latest`, or with a digest, which never changes.
        pull: Whether an image that is not on this machine is pulled from its registry.
        program: The program: `podman`, `docker`, or the path of one.
        runtime: The program's OCI runtime, such as `runc`; by default the one it has configured.
        cpus: How many processors a command uses; 0 for no limit.
        ulimits: Further limits of each process, as `name=soft:hard`. By default 4,096 processes
            for its user, as some machines refuse what the program would set.

    Example:
        >>> PodmanConfig(image="docker.io/library/python:3.13-slim").is_pinned
        False
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    image: Annotated[str, Field(min_length=1, pattern=r"^[^-\s]\S*$")]
    pull: bool = False
    program: Annotated[str, Field(min_length=1)] = "podman"
    runtime: str | None = None
    cpus: Annotated[float, Field(ge=0)] = 1
    ulimits: tuple[str, ...] = ("nproc=4096:4096",)

    @field_validator("image")
    @classmethod
    def _unchanging(cls, image: str) -> str:
        tag = image.rpartition("/")[2].partition(":")[2]
        if "@" not in image and tag in {"", "latest"}:
            raise ValueError(
                "name an image with a tag other than latest, or with a digest, such as "
                "docker.io/library/python:3.13-slim: what latest means changes without notice"
            )
        return image

    @property
    def is_pinned(self) -> bool:
        """True where the image is named by its digest, so that nobody can change it."""
        return "@" in self.image or self.image.startswith("sha256:")

    @classmethod
    def of(cls, settings: SandboxSettings) -> PodmanConfig:
        """Return the options of the sandbox's settings.

        Raises:
            ConfigurationError: When they are something else; names the first fault.
        """
        try:
            return cls.model_validate(settings.options)
        except ValidationError as error:
            raise ConfigurationError(f"plugins.sandbox.options: {first_fault(error)}.") from None
