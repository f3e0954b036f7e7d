import { readFile } from 'node:fs/promises'
import { STATUS_CODES } from 'node:http'
import { resolve } from 'node:path'
import { buffer } from 'node:stream/consumers'
import type { Given } from '../arguments.ts'
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { checkedName } from '../functions/folder.ts'
import { anonKey, type Key, serviceRoleKey } from '../functions/key.ts'
import { clean } from '../print.ts'
import { openProject } from '../project.ts'
import { mimeTypeOf, unknownType } from '../storage/mime-types.ts'

interface Body {
  bytes: Buffer
  type: string
}

export async function invoke(context: Context): Promise<Answer> {
  const { given, screen } = context
  const name = checkedName(given.operands['name']!)
  const method = given.values['method'] ?? 'POST'
  const own = headersIn(given)
  const subPath = subPathIn(given)
  const body = await bodyIn(context, method)
  const { platform, id } = await openProject(context)
  // A user who sends a token of their own does not need the service_role key, and the server audits its use.
  const isOwnCaller = own.some(([header]) => /^(authorization|apikey)$/i.test(header))
  const key = (isOwnCaller ? null : await serviceRoleKey(platform, id)) ?? (await anonKey(platform, id))
  const url = `${platform.target.connectUrl}/v1/functions/${id}/${name}${subPath}`
  const signal = context.interruption()
  const startedAt = performance.now()
  const reply = await fetch(url, {
    method,
    headers: headersOf(key, body, own),
    redirect: 'manual',
    signal,
    ...(body && { body: body.bytes }),
  })
  const milliseconds = Math.round(performance.now() - startedAt)
  const requestId = reply.headers.get('x-request-id') ?? '-'
  screen.debug(`${reply.status} ${method} ${url} request id ${requestId}`)
  screen.hint(
    clean(
      `HTTP ${reply.status} ${STATUS_CODES[reply.status] ?? ''} in ${milliseconds} ms, request id ${requestId}`,
    ),
  )
  const isFailure = reply.status >= 400
  const data = screen.format === 'json' ? await wholeAnswer(reply) : await printBody(reply, context)
  if (isFailure) screen.hint(hintFor(reply.status, name, key))
  return { data, text: () => '', isFailure, ...(screen.format !== 'json' && { wasStreamed: true }) }
}

function headersIn({ values }: Given): [name: string, value: string][] {
  const given = values['header']?.split('\n') ?? []
  return given.map(line => {
    const [, name, value] = /^([!#$%&'*+.^_`|~\w-]+):\s*([\t\x20-\x7e\x80-\xff]*)$/.exec(line) ?? []
    if (name !== undefined && value !== undefined) return [name, value]
    throw new Failure(
      'usage_invalid_value',
      `--header cannot be "${line}".`,
      `Write it as a name, a colon and a value: --header 'Accept: text/plain'`,
    )
  })
}

/** With the slash before it, or empty. */
function subPathIn({ values }: Given): string {
  const given = values['path']
  if (given === undefined) return ''
  const path = /^[/?]/.test(given) ? given : `/${given}`
  // `fetch` resolves these steps, and would call something else than this function.
  const hasSteps = path
    .split(/[?#]/)[0]!
    .split(/[/\\]/)
    .some(part => /^(\.|%2e){1,2}$/i.test(part))
  if (!hasSteps && !path.includes('#')) return path
  throw new Failure(
    'usage_invalid_value',
    `--path cannot be "${given}".`,
    'Write the path below the function without "." and "..", and # as %23.',
  )
}

async function bodyIn({ cwd, given, stdin }: Context, method: string): Promise<Body | null> {
  const text = given.values['body']
  if (text === undefined) return null
  if (method === 'GET' || method === 'HEAD')
    throw new Failure(
      'usage_invalid_value',
      `A ${method} request has no body.`,
      'Omit --body, or use --method POST.',
    )
  if (!text.startsWith('@')) return withType(Buffer.from(text), 'text/plain; charset=utf-8')
  const file = text.slice(1)
  try {
    if (file === '-') return withType(await buffer(stdin), unknownType)
    return withType(await readFile(resolve(cwd, file)), mimeTypeOf(file))
  } catch (cause) {
    throw new Failure(
      'file_unreadable',
      `${file === '-' ? 'Standard input' : file} cannot be read: ${(cause as Error).message}.`,
      '--body @<file> sends the content of a file.',
      cause,
    )
  }
}

function withType(bytes: Buffer, otherwise: string): Body {
  try {
    JSON.parse(bytes.toString())
    return { bytes, type: 'application/json' }
  } catch {
    return { bytes, type: otherwise }
  }
}

function headersOf(key: Key, body: Body | null, own: readonly [string, string][]): Headers {
  const headers = new Headers({ apikey: key.value })
  if (key.role === 'service_role') headers.set('authorization', `Bearer ${key.value}`)
  if (body) headers.set('content-type', body.type)
  for (const name of new Set(own.map(([each]) => each))) headers.delete(name)
  for (const [name, value] of own) headers.append(name, value)
  return headers
}

async function wholeAnswer(reply: Response): Promise<object> {
  const bytes = Buffer.from(await withCut(() => reply.arrayBuffer()))
  const text = bytes.toString()
  const isText = Buffer.from(text).equals(bytes)
  return {
    status: reply.status,
    headers: Object.fromEntries(reply.headers),
    body: isText ? text : null,
    body_base64: isText ? null : bytes.toString('base64'),
  }
}

/** As it arrives. In a terminal, control characters are replaced and the last line ends. */
async function printBody(reply: Response, { screen }: Context): Promise<null> {
  const decoder = new TextDecoder()
  let last = '\n'
  const parts = reply.body?.[Symbol.asyncIterator]()
  for (;;) {
    const next = await withCut(async () => parts?.next())
    const chunk = next?.value as Uint8Array | undefined
    if (!screen.isTerminal && chunk) await screen.write(chunk)
    if (screen.isTerminal) {
      const text = clean(decoder.decode(chunk, { stream: chunk !== undefined }))
      last = text.at(-1) ?? last
      await screen.write(text)
    }
    if (!chunk) break
  }
  if (screen.isTerminal && last !== '\n') await screen.write('\n')
  return null
}

async function withCut<T>(read: () => Promise<T>): Promise<T> {
  try {
    return await read()
  } catch (cause) {
    throw new Failure(
      'connection_failed',
      'The connection was cut before the end of the answer.',
      'plinth functions logs <name> may have the reason.',
      cause,
    )
  }
}

function hintFor(status: number, name: string, { role }: Key): string {
  if (status === 401 && role === 'anon')
    return `Your token may not read the service_role key, so the anon key was sent. Send the token of a user: --header 'Authorization: Bearer <token>'`
  if (status === 404) return 'plinth functions list shows the functions.'
  return `plinth functions logs ${name} shows what the function has printed.`
}
