"""Patterns of commands to begin with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final


def _each(text: str, more: str = " *") -> list[str]:
    """Return the patterns of a text, one a semicolon, each followed by any words."""
    return [f"{' '.join(each.split())}{more}" for each in text.split(";")]


_READ: Final = [
    *_each(
        "ls; pwd; cd; echo; printf; true; false; :; cat; head; tail; wc; nl; cut; tr; sort; grep"
        "; egrep; fgrep; rg; find; fd; tree; file; stat; du; df; which; type; command -v; whoami"
        "; id; uname; date; basename; dirname; realpath; readlink; diff; cmp; comm; md5sum; sha1sum"
        "; sha256sum; cksum; jq; column; paste; join; tac; rev; fold; seq; expr; sleep; nproc; ps"
        "; free; uptime; sed; awk; od; hexdump; strings; test; [; exit; set; read; wait; shift"
        "; return; break; continue; git status; git diff; git log; git show; git rev-parse"
        "; git ls-files; git ls-tree; git blame; git describe; git shortlog; git grep"
        "; git branch --list; git tag -l; git tag --list; git stash list; git cat-file"
        "; git merge-base; git rev-list; git name-rev; git config --get; git config --list"
        "; git worktree list; git submodule status; git for-each-ref; git check-ignore"
        "; git diff-tree; git remote get-url; git remote show; git count-objects"
        "; git --no-pager log; git --no-pager diff; git --no-pager show; pip list; pip show"
        "; pip freeze; npm ls; npm list; go list; go env; go version; docker ps"
        "; docker images; docker logs; kubectl get; kubectl describe; kubectl logs"
    ),
    *_each(
        "uniq; uniq -c; uniq -d; uniq -u; hostname; git branch; git branch -a; git branch -r"
        "; git branch -v; git branch -vv; git branch --show-current; git tag; git remote"
        "; git remote -v; git stash show; git --version; bash --version; node --version; node -v"
        "; npm --version; npm -v; python --version; python -V; python3 --version; pip --version"
        "; cargo --version; rustc --version; make --version; gcc --version; docker --version"
        "; cmake --version; java -version; uv --version; ruff --version; php -v",
        "",
    ),
]
_WORK: Final = [
    *_each(
        "pytest; python -m pytest; python3 -m pytest; python -m unittest; python3 -m unittest"
        "; python -m py_compile; python -m compileall; python -m mypy; python -m build; tox; nox"
        "; ruff check; ruff check --fix; ruff format; black; isort; mypy; pyright; flake8; pylint"
        "; bandit; coverage report; coverage run -m pytest; coverage html; coverage xml"
        "; pre-commit run; uv run pytest; uv run ruff check; uv run mypy; uv sync; uv lock"
        "; uv pip list; uv build; poetry run pytest; poetry install; poetry check; poetry build"
        "; npm outdated; npm view; cargo tree; cargo metadata; npm test; npm run test"
        "; npm run test:unit; npm run lint; npm run build; npm run typecheck; npm run type-check"
        "; npm run format; npm run format:check; npm run check; npm ci; npm audit; npx tsc"
        "; npx eslint; npx jest; npx vitest; npx prettier --check; tsc; eslint; jest; vitest"
        "; prettier --check; pnpm test; pnpm run test; pnpm run lint; pnpm run build; pnpm lint"
        "; pnpm build; yarn test; yarn lint; yarn build; yarn run test; yarn run lint"
        "; yarn run build; cargo build; cargo check; cargo test; cargo clippy; cargo fmt; cargo doc"
        "; cargo bench; go build; go test; go vet; go fmt; go mod tidy; go mod download"
        "; go mod verify; gofmt; make; shellcheck; git add; git commit; git checkout; git switch"
        "; git switch -c; git restore; git stash; git fetch; git init; git branch; git tag; git mv"
        "; git merge; git rebase; git cherry-pick; git revert; git pull; git submodule update"
        "; git reflog; git apply; mkdir; touch; gh pr view; gh pr list; gh pr diff; gh pr checks"
        "; gh pr status; gh issue view; gh issue list; gh run list; gh run view; export CI=*"
        "; export NODE_ENV=*"
    ),
    *_each(
        "pip install -r requirements.txt; pip install -r requirements-dev.txt; pip install -e ."
        "; pip check; python -m pip install -e .; npm install; pnpm install; yarn; yarn install"
        "; yarn install --frozen-lockfile; pnpm install --frozen-lockfile; golangci-lint run"
        "; golangci-lint run ./...; cmake -S . -B build; cmake -B build; cmake ..; ctest"
        "; cmake --build build; ctest --test-dir build; ctest --output-on-failure; ninja"
        "; ninja -C build; meson setup build; meson compile -C build; meson test -C build; mvn test"
        "; mvn compile; mvn package; mvn verify; mvn -B test; mvn -B package; mvn -B verify"
        "; ./mvnw test; ./mvnw verify; gradle test; gradle build; ./gradlew test; ./gradlew build"
        "; ./gradlew check; bundle install; bundle exec rspec; bundle exec rubocop; rake test"
        "; bundle exec rake test; rspec; rubocop; dotnet build; dotnet test; dotnet restore"
        "; dotnet build --no-restore; swift build; swift test; composer install; phpunit"
        "; composer validate; composer validate --strict; vendor/bin/phpunit; mix test; mix compile"
        "; mix format --check-formatted; stack test; stack build; cabal test; cabal build all"
        "; bazel build //...; bazel test //...; deno test; deno lint; bun test; bun install"
        "; terraform validate; terraform fmt -check; mkdocs build; mkdocs build --strict"
        "; actionlint; docker compose ps; docker compose config; flutter test; sbt test; lein test",
        "",
    ),
]
_NEVER: Final = _each(
    "sudo; su; doas; dd; mkfs*; fdisk; parted; shutdown; reboot; halt; poweroff; crontab; at"
    "; git push --force; git push -f; git push --mirror; rm -rf /; rm -rf ~; rm -rf /*"
    "; chmod -R 777 /"
)
_NETWORK: Final = _each("curl; wget; nc; ncat; telnet; ssh; scp; sftp; rsync; ftp")
PRESETS: Final[Mapping[str, Mapping[str, list[str]]]] = {
    "read-only": {"allow": _READ},
    "developer": {"allow": [*_READ, *_WORK], "ask": _each("git push; rm"), "deny": _NEVER},
    "careful": {"allow": _READ, "deny": [*_NEVER, *_NETWORK]},
}
"""The patterns of each preset, by effect."""
