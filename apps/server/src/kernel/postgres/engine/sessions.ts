import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'

/** The process title of a session: `postgres: user database [local] SELECT`, or a host and port instead of `[local]`. */
const sessionTitle = /^postgres: \S+ \S+ (\[local\]|\S+\(\d+\))/

/** Whether a server still has client sessions, and not only background processes. */
export function hasSessions(postmaster: number): boolean {
  const children = process.platform === 'linux' ? childrenByProc(postmaster) : childrenByPs(postmaster)
  return children.some(title => sessionTitle.test(title))
}

function childrenByProc(parent: number): string[] {
  const titles: string[] = []
  for (const name of readdirSync('/proc'))
    if (/^\d+$/.test(name))
      try {
        // The name in parentheses may contain any character. The state and the parent follow it.
        const [, ppid] = readFileSync(`/proc/${name}/stat`, 'utf8')
          .replace(/^.*\) /s, '')
          .split(' ')
        if (Number(ppid) === parent) titles.push(readFileSync(`/proc/${name}/cmdline`, 'utf8'))
      } catch {
        // It ended in between.
      }
  return titles
}

function childrenByPs(parent: number): string[] {
  const { stdout } = spawnSync('ps', ['-A', '-o', 'ppid=,command='], { encoding: 'utf8' })
  return (stdout ?? '')
    .split('\n')
    .map(line => /^\s*(\d+) (.*)$/.exec(line))
    .filter(found => Number(found?.[1]) === parent)
    .map(found => found![2]!)
}
