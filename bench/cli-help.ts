// CPU of `plinth --help`: with the Node of the repository, and as a shell starts it, where an older Node on the PATH
// starts that one.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { endedChildrenCpuMicros, interleave, medians, report, type Sample } from './measure.ts'
import { repository } from './stage.ts'

const rounds = 5
const runsPerRound = 10
const plinth = join(repository, 'apps/cli/bin/plinth.js')

function run(command: string, args: string[]): void {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd: home, encoding: 'utf8' })
  if (status !== 0) throw new Error(`${command} ${args.join(' ')} ended with ${status}: ${stderr || stdout}`)
}

function failure(command: string, args: string[]): string | undefined {
  try {
    run(command, args)
    return undefined
  } catch (error) {
    return (error as Error).message.slice(0, 300)
  }
}

/** Several runs together, because /proc counts in steps of 10 ms. */
async function cost(command: string, args: string[]): Promise<Sample> {
  const before = endedChildrenCpuMicros()
  const since = performance.now()
  for (let count = 0; count < runsPerRound; count++) run(command, args)
  return {
    cpu_ms: (endedChildrenCpuMicros() - before) / 1000 / runsPerRound,
    wall_ms: (performance.now() - since) / runsPerRound,
  }
}

const home = mkdtempSync(join(tmpdir(), 'plinth-bench-'))
try {
  if (!existsSync(plinth)) throw new Error(`${plinth} does not exist yet`)
  const systemNode = spawnSync('node', ['--version'], { encoding: 'utf8' }).stdout.trim()
  run(process.execPath, [plinth, '--help']) // fills the compile cache
  const shellFailure = failure(plinth, ['--help'])
  const samples = await interleave(rounds, {
    help: () => cost(process.execPath, [plinth, '--help']),
    helpOfCommand: () => cost(process.execPath, [plinth, 'projects', '--help']),
    byShell: async () => (shellFailure ? { cpu_ms: 0, wall_ms: 0 } : cost(plinth, ['--help'])),
    bareNode: () => cost(process.execPath, ['-e', '0']),
  })
  const bare_node_cpu_ms = medians(samples.bareNode)['cpu_ms']
  const reportResult = (subject: string, sample: Sample[], target?: { atMost: number }, failure?: string) =>
    report({
      bench: 'cli-help',
      subject,
      ...(target && { target, excellent: 80 }),
      measured: medians(sample)['cpu_ms']!,
      unit: 'ms of CPU',
      wall_ms: medians(sample)['wall_ms'],
      bare_node_cpu_ms,
      ...(failure && { failure }),
      rounds,
      runs_per_round: runsPerRound,
    })
  reportResult('plinth --help', samples.help, { atMost: 150 })
  reportResult('plinth projects --help', samples.helpOfCommand)
  reportResult(
    `plinth --help from the shell, with node ${systemNode || 'absent'} on the PATH`,
    samples.byShell,
    undefined,
    shellFailure,
  )
} finally {
  rmSync(home, { recursive: true, force: true })
}
