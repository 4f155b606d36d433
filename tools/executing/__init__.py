"""Does what the README and the documentation tell a reader to do, block by block.

Each page has a directory of its own, in which its blocks are carried out in their order:

- `python` blocks run, and share a namespace; those with `>>>` are doctests.
- `console` blocks are commands, each after a `$ `, and what they print, where that is shown. `...`
  stands for anything; durations, dates and the widths of columns may differ. The command
  `toolstile` is that of the wheel, and `pip install` takes Toolstile from it and nothing
  from an index. `toolstile mcp --http` serves until the page ends, at a port that is free.
  `/path/to` is the page's directory.
- `toml` blocks are configuration, and are validated as such, unless they are of another file.
- `json` blocks are JSON, or lines of it.
- `text` blocks are not for typing. A block in any other language is an error.
- Blocks in tabs (`=== "Sync"`) are indented by four spaces, and carried out like all others.

Comments just above a block say what a reader knows, but a machine does not:

- `<!-- file: NAME -->`: the block is what stands in that file.
- `<!-- exit: N -->`: a command of the block ends with that status; without it, all end with 0.
- `<!-- typed: TEXT -->`: the command is run at a terminal, where this is typed once the output is
  there.
- `<!-- instead: COMMAND => OTHER -->`: the other is run in its place, where it cannot be run here;
  `$CHECKOUT` is the source tree.
- `<!-- of: NAME -->`: the tables are those of another program, or of another file of ours.
- `<!-- needs: postgresql -->`: the commands of the block reach a PostgreSQL server under any name
  of a host; without an installed server the block is skipped.
- `<!-- client: NAME -->`: the block is of the configuration of that MCP client.
- `<!-- invisible-code: LANGUAGE ... -->` is a block that readers do not see.
"""
