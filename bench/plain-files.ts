// The reference for bytes: a plain node:http server of a directory. A download is piped from its file. An upload is piped
// to a file, which is flushed to disk before the answer; the directory entry is not.
import { createReadStream, createWriteStream, statSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { basename, join } from 'node:path'
import { pipeline } from 'node:stream/promises'

const directory = process.env['FILES_DIRECTORY']!

const server = createServer(async (request, response) => {
  const file = join(directory, basename(request.url!))
  try {
    if (request.method === 'PUT') {
      await pipeline(request, createWriteStream(file, { flush: true }))
      response.end()
      return
    }
    response.setHeader('content-length', statSync(file).size)
    createReadStream(file).pipe(response)
  } catch {
    response.destroy()
  }
})
server.listen(0, '127.0.0.1', () => {
  process.stderr.write(`running at http://127.0.0.1:${(server.address() as AddressInfo).port}\n`)
})
process.once('SIGTERM', () => process.exit(0))
