import { setTimeout as sleep } from 'node:timers/promises'
import type { FunctionLog } from '@plinth/contract/functions.ts'
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { checkedName } from '../functions/folder.ts'
import { logLine } from '../functions/log-line.ts'
import { openProject } from '../project.ts'
import { isTemporary, retryDelayMs } from '../temporary-failure.ts'

const maxLines = 1000
const pollMilliseconds = 1000

type Read = (query: { limit?: number; after?: string }) => Promise<FunctionLog[]>

export async function logs(context: Context): Promise<Answer> {
  const { operands, values, switches } = context.given
  const name = checkedName(operands['name']!)
  const limit = limitIn(values['limit'])
  const level = values['level'] as FunctionLog['level'] | undefined
  const { platform, id } = await openProject(context)
  const read: Read = async query => {
    const reply = await platform.functions.logs({
      params: { id, name },
      query: { ...query, ...(level && { level }) },
    })
    return reply.logs
  }
  const latest = await read({ limit })
  if (switches.has('follow')) {
    await follow(context, read, latest)
    return { data: null, text: () => '', wasStreamed: true }
  }
  return {
    data: { logs: latest },
    text: paint => latest.map(line => logLine(paint, line)).join('\n'),
    hints: latest.length === 0 ? [`No lines yet: plinth functions invoke ${name} calls the function.`] : [],
  }
}

function limitIn(text = '100'): number {
  if (/^[1-9]\d{0,3}$/.test(text) && Number(text) <= maxLines) return Number(text)
  throw new Failure(
    'usage_invalid_value',
    `--limit cannot be "${text}": it must be a number from 1 to ${maxLines}.`,
  )
}

/** Until it is interrupted. */
async function follow(context: Context, read: Read, latest: readonly FunctionLog[]): Promise<void> {
  const { screen } = context
  const signal = context.interruption()
  let lines = latest
  let after = '0'
  let failures = 0
  for (;;) {
    for (const line of lines) screen.item({ data: line, text: paint => logLine(paint, line) })
    after = lines.at(-1)?.id ?? after
    const isBehind = lines.length === maxLines
    const pauseMs = isBehind ? 0 : failures > 0 ? retryDelayMs(failures) : pollMilliseconds
    await sleep(pauseMs, undefined, { signal }).catch(() => {})
    if (signal.aborted) return
    try {
      lines = await read({ after, limit: maxLines })
      failures = 0
    } catch (error) {
      if (!isTemporary(error)) throw error
      if (failures === 0) screen.warn('The platform cannot be reached. Trying again until it responds.')
      failures++
      lines = []
    }
  }
}
