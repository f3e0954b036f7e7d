import { join } from 'node:path'
import type { Answer, Context } from '../context.ts'
import { sizeOfData } from '../data-size.ts'
import { requestHealth, textIn } from '../health.ts'
import { clusterDirectory, dataDirectory, inspect, postmasterPid } from '../local-platform.ts'
import { bytes, duration, panel } from '../print.ts'

/** The state of the platform of the data directory, from its files, its processes and its health. */
export async function localStatus(context: Context): Promise<Answer> {
  const { dataDir, state, lock, record } = inspect(dataDirectory(context))
  const health = record && (await healthAt(record.url))
  const size = sizeOfData(dataDir)
  const postgres = postmasterPid(dataDir)
  if (record) {
    const version = Promise.resolve(record.version || null)
    context.connection = { url: record.url, serverVersion: version, abandon: () => {} }
  }
  const uptime = record ? Math.max(0, Math.round((Date.now() - Date.parse(record.started_at)) / 1000)) : null
  const logFile = join(dataDir, 'platform.log')
  return {
    data: {
      data_dir: dataDir,
      state,
      running: state === 'running',
      pid: lock?.pid ?? null,
      url: record?.url ?? null,
      version: record?.version ?? null,
      started_at: record?.started_at ?? null,
      uptime_seconds: uptime,
      health: health,
      postgres: { pid: postgres, directory: clusterDirectory(dataDir) },
      data_bytes: size,
      log: logFile,
    },
    text: paint =>
      [
        panel(paint, 'Platform', [
          ['State', state],
          ['Health', health],
          ['URL', record?.url ?? null],
          ['Version', record?.version ?? null],
          ['PID', lock?.pid ?? null],
          ['Up', uptime === null ? null : duration(uptime)],
          ['Log', logFile],
        ]),
        panel(paint, 'Database', [
          ['PID', postgres],
          ['Directory', clusterDirectory(dataDir)],
          ['Size', bytes(size)],
        ]),
      ].join('\n'),
    hints: lock ? [] : [`No platform is running for ${dataDir}: plinth start starts one.`],
  }
}

async function healthAt(url: string): Promise<string> {
  try {
    const { body } = await requestHealth(url, '/health', { signal: AbortSignal.timeout(5000) })
    return textIn(body, 'status') ?? 'unknown'
  } catch {
    return 'unreachable'
  }
}
