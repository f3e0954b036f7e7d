import type { Answer, Context } from '../context.ts'
import {
  childrenOf,
  commandLine,
  dataDirectory,
  inspect,
  type LocalPlatform,
  memoryBytes,
  postmasterPid,
  startedAt,
} from '../local-platform.ts'
import { bytes, duration, table } from '../print.ts'

export async function ps(context: Context): Promise<Answer> {
  const platform = inspect(dataDirectory(context))
  const processes = processesOf(platform)
  return {
    data: { data_dir: platform.dataDir, processes },
    hints:
      processes.length === 0
        ? [`No platform is running for ${platform.dataDir}: plinth start starts one.`]
        : [],
    text: paint =>
      processes.length === 0
        ? ''
        : table(
            paint,
            ['PID', 'NAME', 'STATE', 'UP', 'MEMORY'],
            processes.map(each => [
              each.pid,
              each.name,
              each.state,
              each.uptime_seconds === null ? null : duration(each.uptime_seconds),
              each.memory_bytes === null ? null : bytes(each.memory_bytes),
            ]),
          ),
  }
}

interface Process {
  pid: number
  name: string
  state: string
  uptime_seconds: number | null
  memory_bytes: number | null
}

function processesOf({ dataDir, lock, state }: LocalPlatform): Process[] {
  const describe = (pid: number, name: string, processState = 'running'): Process => {
    const since = startedAt(pid)
    const uptime = since === null ? null : Math.max(0, Math.round((Date.now() - since) / 1000))
    return { pid, name, state: processState, uptime_seconds: uptime, memory_bytes: memoryBytes(pid) }
  }
  const postmaster = postmasterPid(dataDir)
  const workers = postmaster === null ? [] : childrenOf(postmaster)
  return [
    ...(lock ? [describe(lock.pid, 'platform', state)] : []),
    ...(postmaster === null ? [] : [describe(postmaster, 'postgres')]),
    ...workers.flatMap(each => {
      const name = commandLine(each)?.trim()
      return name ? [describe(each, name)] : []
    }),
  ]
}
