import { extname } from 'node:path'
import { lookup } from 'mime-types'

export const unknownType = 'application/octet-stream'

/** Passes only the extension, because `lookup` would take a bare name such as `html` for one. */
export const mimeTypeOf = (name: string): string => lookup(extname(name)) || unknownType
