// A client for the queues of a project. A rejected call fails the test.
import { type CreatedProject, createProject, unique, unlimited } from './people.ts'
import { bodyOf, type ServiceApi, serviceOf } from './service.ts'
import type { Target } from './target.ts'

export interface Message {
  msg_id: number
  read_ct: number
  enqueued_at: string
  vt: string
  message: any
  [field: string]: any
}

/** One queue, with a function per operation. */
export interface QueueApi extends ServiceApi {
  name: string
  /** `queues/<name>/<operation>` */
  at(operation: string): string
  send(message: unknown, options?: Record<string, unknown>): Promise<number>
  sendBatch(messages: unknown[], options?: Record<string, unknown>): Promise<number[]>
  /** In the order of their ids. */
  read(vt: number, qty?: number): Promise<Message[]>
  pop(): Promise<Message | null>
  ack(msg_id: number): Promise<boolean>
  archive(msg_id: number): Promise<boolean>
  archived(query?: string): Promise<Message[]>
  replay(msg_id: number): Promise<void>
  metrics(): Promise<any>
}

const freshName = () => unique('queue').replaceAll('-', '_')

export function queueOf(api: ServiceApi, name: string): QueueApi {
  const at = (operation: string) => `queues/${name}/${operation}`
  const post = async (operation: string, body?: unknown) => bodyOf(await api.post(at(operation), body))
  return {
    ...api,
    name,
    at,
    send: async (message, options = {}) => (await post('send', { message, ...options })).msg_id,
    sendBatch: async (messages, options = {}) => (await post('send_batch', { messages, ...options })).msg_ids,
    read: async (vt, qty) => {
      const messages: Message[] = await post('read', qty === undefined ? { vt } : { vt, qty })
      return messages.toSorted((a, b) => a.msg_id - b.msg_id)
    },
    pop: () => post('pop'),
    ack: async msg_id => (await post('ack', { msg_id })).acked,
    archive: async msg_id => (await post('archive', { msg_id })).archived,
    archived: async (query = '') => bodyOf(await api.get(at(`archived${query}`))),
    replay: async msg_id => void (await post('replay', { msg_id })),
    metrics: async () => bodyOf(await api.get(at('metrics'))),
  }
}

export async function createQueue(api: ServiceApi, name = freshName()): Promise<QueueApi> {
  bodyOf(await api.post('queues', { name }), 201)
  return queueOf(api, name)
}

export const queuesOf = (target: Target, project: CreatedProject): ServiceApi =>
  serviceOf(target, project, 'queue')

export const queuesProject = async (target: Target): Promise<ServiceApi> =>
  queuesOf(target, await createProject(target, { quotas: unlimited }))

export const idsOf = (messages: readonly Message[]): number[] => messages.map(({ msg_id }) => msg_id)
