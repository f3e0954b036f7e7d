// Bodies of a given size that are cheap to send and expensive to parse.

export const mebibyte = 1024 * 1024

/** `head`, then `piece` as often as it fits into `size`, then `tail`. */
export function filled(size: number, head: string, piece: string, tail: string): Buffer {
  const room = size - Buffer.byteLength(head) - Buffer.byteLength(tail)
  const times = Math.max(0, Math.floor(room / Buffer.byteLength(piece)))
  return Buffer.from(head + piece.repeat(times) + tail)
}

/** Pieces with a number in each, such as keys that must differ. */
export function numbered(size: number, head: string, piece: (n: number) => string, tail: string): Buffer {
  const pieces = [head]
  let length = head.length + tail.length
  for (let n = 0; ; n++) {
    const next = piece(n)
    length += next.length
    if (length > size) break
    pieces.push(next)
  }
  return Buffer.from(pieces.join('') + tail)
}

/** One long plain string: the control of every JSON body. */
export const plainText = (size: number) => filled(size, '{"a":"', 'x', '"}')

export const jsonBodies: Record<string, (size: number) => Buffer> = {
  numbers: size => filled(size, '[0', ',0', ']'),
  'empty objects': size => filled(size, '[{}', ',{}', ']'),
  'rows of one key': size => filled(size, '[{"a":1}', ',{"a":1}', ']'),
  'different keys': size => numbered(size, '{"k":0', n => `,"k${n}":0`, '}'),
  'rows with different keys': size => numbered(size, '[{"k":0}', n => `,{"k${n}":0}`, ']'),
  'open brackets': size => filled(size, '', '[', ''),
  'text of escapes': size => filled(size, '{"a":"', '\\u00e9', '"}'),
  'text of quotes': size => filled(size, '{"a":"', '\\"', '"}'),
  'text beyond ASCII': size => filled(size, '{"a":"', 'é', '"}'),
  'white space': size => filled(size, '[', ' ', ']'),
  'a number of many digits': size => filled(size, '[1', '0', ']'),
}
