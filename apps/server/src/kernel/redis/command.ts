// Encodes a command for Redis (RESP2): the number of arguments, then each with its length in bytes.

export type RedisArgument = string | Buffer
export type RedisCommand = readonly RedisArgument[]

/** A string if all arguments are strings, otherwise a buffer. */
export function encodeCommand(command: RedisCommand): string | Buffer {
  let text = `*${command.length}\r\n`
  for (const argument of command) {
    if (typeof argument !== 'string') return encodeBytes(command)
    text += `$${Buffer.byteLength(argument)}\r\n${argument}\r\n`
  }
  return text
}

function encodeBytes(command: RedisCommand): Buffer {
  const parts: Buffer[] = [Buffer.from(`*${command.length}\r\n`)]
  for (const argument of command) {
    const bytes = typeof argument === 'string' ? Buffer.from(argument) : argument
    parts.push(Buffer.from(`$${bytes.length}\r\n`), bytes, lineEnd)
  }
  return Buffer.concat(parts)
}

const lineEnd = Buffer.from('\r\n')
