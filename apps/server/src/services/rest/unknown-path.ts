// Errors of the row API for unknown paths and methods.
import { Refusal } from '#src/kernel/errors.ts'
import type { RequestHead } from '#src/kernel/http/request.ts'

const rows = /^\/v1\/(?:rest\/[^/]+|[^/]+\/rest\/v1)(\/.*)?$/

export const isRowsPath = (path: string): boolean => rows.test(path)

export function refuseRowsPath({ path, method }: Pick<RequestHead, 'path' | 'method'>): never {
  const found = rows.exec(path)
  const [, first, ...more] = (found?.[1] ?? '').split('/')
  if (first === 'rpc' && more.length === 1 && more[0] !== '')
    throw new Refusal('PGRST101', `Cannot use the ${method} method on RPC`, {
      headers: { allow: 'GET, HEAD, POST, OPTIONS' },
    })
  if (first && more.length === 0)
    throw new Refusal('PGRST117', `Unsupported HTTP method: ${method}`, {
      headers: { allow: 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS' },
    })
  throw new Refusal('PGRST125', 'Invalid path specified in request URL', {
    hint: 'Tables are at …/<table>, functions at …/rpc/<function>.',
  })
}
