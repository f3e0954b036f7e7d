// Sends a request unchanged, without the URL normalisation of `fetch`.
import { Agent, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { targetOf, type Wire } from './wire.ts'
import type { Project } from './world.ts'

export interface Answer {
  status: number
  headers: Readonly<Record<string, string>>
  text: string
}

export interface Sender {
  send(project: Project, wire: Wire): Promise<Answer>
  close(): void
}

const patienceMs = 90_000

export function openSender(url: string): Sender {
  const agent = new Agent({ keepAlive: true })
  const { hostname, port } = new URL(url)
  return {
    async send(project, wire) {
      const { method, body } = wire
      const path = sendable(addressOf(project, targetOf(wire)))
      const headers = {
        ...project.credentials[wire.who],
        ...(body !== undefined && { 'content-length': String(Buffer.byteLength(body)) }),
        ...wire.headers,
      }
      return new Promise((resolve, reject) => {
        const outgoing = request({ agent, hostname, port, method, path, headers, timeout: patienceMs })
        outgoing.once('timeout', () => outgoing.destroy(new Error(`no answer in ${patienceMs} ms`)))
        outgoing.once('error', reject)
        outgoing.once('response', incoming => {
          text(incoming).then(
            body => resolve({ status: incoming.statusCode!, headers: flat(incoming.headers), text: body }),
            reject,
          )
        })
        outgoing.end(body)
      })
    },
    close: () => agent.destroy(),
  }
}

/** One of the two URL shapes, always the same one for the same request. */
const addressOf = ({ id }: Project, target: string) =>
  target.length % 2 === 0 ? `/v1/rest/${id}/${target}` : `/v1/${id}/rest/v1/${target}`

/** Encodes the characters that Node.js refuses to send. */
const sendable = (path: string) =>
  path.replace(/[^\x21-\x7e]/g, each => encodeURIComponent(each.toWellFormed()))

const flat = (headers: Record<string, string | string[] | undefined>) =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]))
