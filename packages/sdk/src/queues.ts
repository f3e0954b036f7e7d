import type { queueApi } from '@plinth/contract/queue.ts'
import { type CallOptions, picked, type Result } from './result.ts'
import type { Send } from './transport.ts'
import type * as Wire from './wire.ts'

/** What a message may carry besides itself. */
export type MessageHeaders = Record<string, unknown>

/** A message of a queue; `T` is what was sent. */
export interface Message<T = unknown> extends Omit<Wire.Message, 'message' | 'headers'> {
  message: T
  headers: MessageHeaders | null
}

/** A message that was put aside. */
export interface ArchivedMessage<T = unknown> extends Omit<Wire.ArchivedMessage, 'message' | 'headers'> {
  message: T
  headers: MessageHeaders | null
}

export interface SendOptions extends CallOptions {
  /** Seconds until it can be read. */
  delay?: number
  headers?: MessageHeaders | null
}

export interface SendBatchOptions extends CallOptions {
  /** Seconds until they can be read. */
  delay?: number
  /** One for each message. */
  headers?: (MessageHeaders | null)[] | null
}

export interface ReadOptions extends CallOptions {
  /** Seconds for which nobody else sees what is read: longer than the work takes. */
  vt: number
  /** How many messages at most, up to 1000; 1 when left out. */
  qty?: number
}

export interface ArchivedOptions extends CallOptions {
  /** How many at most, up to 1000; 100 when left out. */
  limit?: number
  offset?: number
}

/** The message queues of the project. Delivery is at least once: what is read and not acked comes back. */
export class Queues {
  readonly #send: Send

  /** @internal */
  constructor(send: Send) {
    this.#send = send
  }

  /** Creates a queue; one that exists already is left as it is. Names are `[a-z_][a-z0-9_]*`, at most 47 long. */
  create(name: string, options: CallOptions = {}): Promise<Result<Wire.Queue>> {
    const answer = this.#send<typeof queueApi.create>('POST', '/queue/{project}/queues', {
      body: { name },
      ...options,
    })
    return picked(answer, ({ queue: _, ...created }) => created)
  }

  /** The queues of the project. */
  list(options: CallOptions = {}): Promise<Result<Wire.Queue[]>> {
    return this.#send<typeof queueApi.list>('GET', '/queue/{project}/queues', options)
  }

  /** Drops a queue with its messages and its archive. */
  drop(queue: string, options: CallOptions = {}): Promise<Result<null>> {
    const answer = this.#send<typeof queueApi.drop>('DELETE', '/queue/{project}/queues/{name}', {
      params: { name: queue },
      ...options,
    })
    return picked(answer, () => null)
  }

  /** Sends a message, which may be anything JSON can say; `data` is its id. */
  send<T = unknown>(queue: string, message: T, options: SendOptions = {}): Promise<Result<number>> {
    const { signal, ...how } = options
    const answer = this.#send<typeof queueApi.send>('POST', '/queue/{project}/queues/{name}/send', {
      params: { name: queue },
      body: { message, ...how },
      signal,
    })
    return picked(answer, ({ msg_id }) => msg_id)
  }

  /** Sends messages, all or none; `data` is their ids, in their order. */
  sendBatch<T = unknown>(
    queue: string,
    messages: readonly T[],
    options: SendBatchOptions = {},
  ): Promise<Result<number[]>> {
    const { signal, ...how } = options
    const answer = this.#send<typeof queueApi.sendBatch>(
      'POST',
      '/queue/{project}/queues/{name}/send_batch',
      { params: { name: queue }, body: { messages: [...messages], ...how }, signal },
    )
    return picked(answer, ({ msg_ids }) => msg_ids)
  }

  /** Reads the oldest visible messages and hides them for `vt` seconds, the time to deal with and ack them. */
  read<T = unknown>(queue: string, options: ReadOptions): Promise<Result<Message<T>[]>> {
    const { signal, ...body } = options
    const answer = this.#send<typeof queueApi.read>('POST', '/queue/{project}/queues/{name}/read', {
      params: { name: queue },
      body,
      signal,
    })
    return answer as Promise<Result<Message<T>[]>>
  }

  /** Reads the oldest visible message and deletes it in the same step; `data` is null when there is none. */
  pop<T = unknown>(queue: string, options: CallOptions = {}): Promise<Result<Message<T> | null>> {
    const answer = this.#send<typeof queueApi.pop>('POST', '/queue/{project}/queues/{name}/pop', {
      params: { name: queue },
      ...options,
    })
    return answer as Promise<Result<Message<T> | null>>
  }

  /** Deletes a message that was dealt with; `data` is false when there is none of this id. */
  ack(queue: string, id: number, options?: CallOptions): Promise<Result<boolean>>
  /** Deletes several messages in one step; `data` is the ids there were. */
  ack(queue: string, ids: readonly number[], options?: CallOptions): Promise<Result<number[]>>
  ack(queue: string, id: number | readonly number[], options: CallOptions = {}) {
    const answer = this.#send<typeof queueApi.ack>('POST', '/queue/{project}/queues/{name}/ack', {
      params: { name: queue },
      body: oneOrMany(id),
      ...options,
    })
    return picked(answer, ({ acked, msg_ids }) => (typeof id === 'number' ? acked : msg_ids)) as never
  }

  /** Puts a message aside, out of the queue; `data` is false when there is none of this id. */
  archive(queue: string, id: number, options?: CallOptions): Promise<Result<boolean>>
  /** Puts several messages aside in one step; `data` is the ids there were. */
  archive(queue: string, ids: readonly number[], options?: CallOptions): Promise<Result<number[]>>
  archive(queue: string, id: number | readonly number[], options: CallOptions = {}) {
    const answer = this.#send<typeof queueApi.archive>('POST', '/queue/{project}/queues/{name}/archive', {
      params: { name: queue },
      body: oneOrMany(id),
      ...options,
    })
    return picked(answer, ({ archived, msg_ids }) => (typeof id === 'number' ? archived : msg_ids)) as never
  }

  /** The messages put aside, the newest first. */
  archived<T = unknown>(queue: string, options: ArchivedOptions = {}): Promise<Result<ArchivedMessage<T>[]>> {
    const { signal, ...query } = options
    const answer = this.#send<typeof queueApi.archived>('GET', '/queue/{project}/queues/{name}/archived', {
      params: { name: queue },
      query,
      signal,
    })
    return answer as Promise<Result<ArchivedMessage<T>[]>>
  }

  /** Puts an archived message back into the queue, visible at once; `data` is its id there. */
  replay(queue: string, id: number, options: CallOptions = {}): Promise<Result<number>> {
    const answer = this.#send<typeof queueApi.replay>('POST', '/queue/{project}/queues/{name}/replay', {
      params: { name: queue },
      body: { msg_id: id },
      ...options,
    })
    return picked(answer, ({ msg_id }) => msg_id)
  }

  /** How long the queue is, how old its messages are, and how many it has seen. */
  metrics(queue: string, options: CallOptions = {}): Promise<Result<Wire.QueueMetrics>> {
    return this.#send<typeof queueApi.metrics>('GET', '/queue/{project}/queues/{name}/metrics', {
      params: { name: queue },
      ...options,
    })
  }
}

const oneOrMany = (id: number | readonly number[]) =>
  typeof id === 'number' ? { msg_id: id } : { msg_ids: [...id] }
