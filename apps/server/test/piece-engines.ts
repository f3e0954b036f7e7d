// Object storage in a real directory and in a real S3 service over HTTP.
import { randomUUID } from 'node:crypto'
import fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before } from 'node:test'
import { openPieces } from '#src/kernel/objects/open-pieces.ts'
import type { Pieces } from '#src/kernel/objects/pieces.ts'
import { type S3Server, startS3 } from './s3-server.ts'

/** Opens the engines before the tests of a file and closes them after. `s3` is set if S3 is one of them. */
export function pieceEngines(...names: ('directory' | 'S3')[]) {
  const dataDir = fs.mkdtempSync(join(tmpdir(), 'plinth-pieces-'))
  const s3 = {} as S3Server
  const engines: Record<string, Pieces> = {}

  before(async () => {
    for (const name of names) {
      if (name === 'S3') Object.assign(s3, await startS3())
      engines[name] = await openPieces({ dataDir, s3: name === 'S3' ? s3.settings : undefined })
    }
  })

  after(async () => {
    for (const pieces of Object.values(engines)) await pieces.close()
    await s3.stop?.()
    fs.rmSync(dataDir, { recursive: true, force: true })
  })

  return { dataDir, s3, engines }
}

export const nameIn = (folder: string, n = 0) => `${folder}/${randomUUID()}.${n}`

export async function put(pieces: Pieces, name: string, ...chunks: (Buffer | string)[]): Promise<void> {
  const writer = await pieces.write(name, 0)
  await writer.append(chunks.map(chunk => Buffer.from(chunk)))
  await writer.finish()
}

export async function read(
  pieces: Pieces,
  name: string,
  from = 0,
  to = Number.POSITIVE_INFINITY,
): Promise<Buffer> {
  const reader = await pieces.open(name, from, to)
  try {
    const buffer = Buffer.alloc(Math.max(0, Math.min(to, reader.size) - from) + 10)
    return buffer.subarray(0, await reader.fill(buffer))
  } finally {
    await reader.close()
  }
}

export async function namesOf(pieces: Pieces, folder: string): Promise<string[]> {
  const names: string[] = []
  for await (const { name } of pieces.list(folder)) names.push(name)
  return names.sort()
}
