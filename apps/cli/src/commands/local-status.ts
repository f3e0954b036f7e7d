import { join } from 'node:path'
import type { Answer, Context } from '../context.ts'
import { sizeOfData } from '../data-size.ts'
import { clusterDirectory, dataDirectory, inspect, postmasterPid } from '../local-platform.ts'
import { versionIn } from '../platform.ts'
import { bytes, duration, panel } from '../print.ts'

/** What the files and processes of the data directory say, and whether the platform answers. */
export async function localStatus(context: Context): Promise<Answer> {
  const { dataDir, state, lock, record } = inspect(dataDirectory(context))
  const [health, size] = await Promise.all([record ? askHealth(record.url) : null, sizeOfData(dataDir)])
  const postgres = postmasterPid(dataDir)
  if (record) {
    const version = Promise.resolve(record.version || health?.version || null)
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
      health: health?.status ?? null,
      postgres: { pid: postgres, directory: clusterDirectory(dataDir) },
      data_bytes: size,
      log: logFile,
    },
    text: paint =>
      [
        panel(paint, 'Platform', [
          ['State', state],
          ['Health', health?.status ?? null],
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
    hints: lock ? [] : [`No platform runs for ${dataDir}: plinth start starts one.`],
  }
}

async function askHealth(url: string): Promise<{ status: string; version: string | null }> {
  try {
    const reply = await fetch(`${url}/health`, { signal: AbortSignal.timeout(5000) })
    const body: unknown = await reply.json()
    const status =
      typeof body === 'object' && body !== null && 'status' in body ? String(body.status) : 'unknown'
    return { status, version: versionIn(body) }
  } catch {
    return { status: 'unreachable', version: null }
  }
}
