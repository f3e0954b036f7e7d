// The body of a `raw` request, read whole and never past its limit.
import { Refusal } from '#src/kernel/errors.ts'
import type { RawRequest } from './request.ts'

export async function readBody({ body, headers }: RawRequest, limit: number): Promise<Buffer> {
  const declared = Number(headers['content-length'] ?? 0)
  if (declared > limit) throw tooLarge(limit)
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of body) {
    chunks.push(chunk as Buffer)
    length += (chunk as Buffer).length
    if (length > limit) throw tooLarge(limit)
  }
  return chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)
}

const tooLarge = (limit: number) =>
  new Refusal('body_too_large', `The body is larger than the ${limit} bytes this route takes`)
