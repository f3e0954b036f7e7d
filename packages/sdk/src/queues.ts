import type { queueApi } from '@plinth/contract/queue.ts'
import { type CallOptions, mapResult, type Result } from './result.ts'
import type { Send } from './transport.ts'
import type * as Wire from './wire.ts'

/** Headers of a message. */
export type MessageHeaders = Record<string, unknown>

/** A message of a queue; `T` is what was sent. */
export interface Message<T = unknown> extends Omit<Wire.Message, 'message' | 'headers'> {
  message: T
  headers: MessageHeaders | null
}

/** An archived message. */
export interface ArchivedMessage<T = unknown> extends Omit<Wire.ArchivedMessage, 'message' | 'headers'> {
  message: T
  headers: MessageHeaders | null
}

export interface SendOptions extends CallOptions {
  /** Delay in seconds until the message is visible. */
  delay?: number
  headers?: MessageHeaders | null
}

export interface SendBatchOptions extends CallOptions {
  /** Delay in seconds until the messages are visible. */
  delay?: number
  /** One headers object per message. */
  headers?: (MessageHeaders | null)[] | null
}

export interface ReadOptions extends CallOptions {
  /** Visibility timeout in seconds. Choose it longer than the processing takes. */
  vt: number
  /** Maximum number of messages, up to 1000. Defaults to 1. */
  qty?: number
}

export interface ArchivedOptions extends CallOptions {
  /** Maximum number of messages, up to 1000. Defaults to 100. */
  limit?: number
  offset?: number
}

/** The message queues of the project. Delivery is at least once: a message that is not acked becomes visible again. */
export class Queues {
  readonly #send: Send

  /** @internal */
  constructor(send: Send) {
    this.#send = send
  }

  /** Creates a queue if it does not exist. Names are `[a-z_][a-z0-9_]*` with at most 47 characters. */
  create(name: string, options: CallOptions = {}): Promise<Result<Wire.Queue>> {
    const answer = this.#send<typeof queueApi.create>('POST', '/queue/{project}/queues', {
      body: { name },
      ...options,
    })
    return mapResult(answer, ({ queue: _, ...created }) => created)
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
    return mapResult(answer, () => null)
  }

  /** Sends a message, which may be any JSON value. `data` is its id. */
  send<T = unknown>(queue: string, message: T, options: SendOptions = {}): Promise<Result<number>> {
    const { signal, ...sendOptions } = options
    const answer = this.#send<typeof queueApi.send>('POST', '/queue/{project}/queues/{name}/send', {
      params: { name: queue },
      body: { message, ...sendOptions },
      signal,
    })
    return mapResult(answer, ({ msg_id }) => msg_id)
  }

  /** Sends several messages atomically. `data` is their ids in the same order. */
  sendBatch<T = unknown>(
    queue: string,
    messages: readonly T[],
    options: SendBatchOptions = {},
  ): Promise<Result<number[]>> {
    const { signal, ...sendOptions } = options
    const answer = this.#send<typeof queueApi.sendBatch>(
      'POST',
      '/queue/{project}/queues/{name}/send_batch',
      { params: { name: queue }, body: { messages: [...messages], ...sendOptions }, signal },
    )
    return mapResult(answer, ({ msg_ids }) => msg_ids)
  }

  /** Reads the oldest visible messages and hides them for `vt` seconds, the time to process and ack them. */
  read<T = unknown>(queue: string, options: ReadOptions): Promise<Result<Message<T>[]>> {
    const { signal, ...body } = options
    const answer = this.#send<typeof queueApi.read>('POST', '/queue/{project}/queues/{name}/read', {
      params: { name: queue },
      body,
      signal,
    })
    return answer as Promise<Result<Message<T>[]>>
  }

  /** Reads and deletes the oldest visible message atomically. `data` is null if there is none. */
  pop<T = unknown>(queue: string, options: CallOptions = {}): Promise<Result<Message<T> | null>> {
    const answer = this.#send<typeof queueApi.pop>('POST', '/queue/{project}/queues/{name}/pop', {
      params: { name: queue },
      ...options,
    })
    return answer as Promise<Result<Message<T> | null>>
  }

  /** Deletes a processed message. `data` is false if it does not exist. */
  ack(queue: string, id: number, options?: CallOptions): Promise<Result<boolean>>
  /** Deletes several messages atomically. `data` is the ids that existed. */
  ack(queue: string, ids: readonly number[], options?: CallOptions): Promise<Result<number[]>>
  ack(queue: string, id: number | readonly number[], options: CallOptions = {}) {
    const answer = this.#send<typeof queueApi.ack>('POST', '/queue/{project}/queues/{name}/ack', {
      params: { name: queue },
      body: oneOrMany(id),
      ...options,
    })
    return mapResult(answer, ({ acked, msg_ids }) => (typeof id === 'number' ? acked : msg_ids)) as never
  }

  /** Moves a message from the queue to the archive. `data` is false if it does not exist. */
  archive(queue: string, id: number, options?: CallOptions): Promise<Result<boolean>>
  /** Archives several messages atomically. `data` is the ids that existed. */
  archive(queue: string, ids: readonly number[], options?: CallOptions): Promise<Result<number[]>>
  archive(queue: string, id: number | readonly number[], options: CallOptions = {}) {
    const answer = this.#send<typeof queueApi.archive>('POST', '/queue/{project}/queues/{name}/archive', {
      params: { name: queue },
      body: oneOrMany(id),
      ...options,
    })
    return mapResult(answer, ({ archived, msg_ids }) =>
      typeof id === 'number' ? archived : msg_ids,
    ) as never
  }

  /** The archived messages, newest first. */
  archived<T = unknown>(queue: string, options: ArchivedOptions = {}): Promise<Result<ArchivedMessage<T>[]>> {
    const { signal, ...query } = options
    const answer = this.#send<typeof queueApi.archived>('GET', '/queue/{project}/queues/{name}/archived', {
      params: { name: queue },
      query,
      signal,
    })
    return answer as Promise<Result<ArchivedMessage<T>[]>>
  }

  /** Moves an archived message back to the queue, visible at once. `data` is its id in the queue. */
  replay(queue: string, id: number, options: CallOptions = {}): Promise<Result<number>> {
    const answer = this.#send<typeof queueApi.replay>('POST', '/queue/{project}/queues/{name}/replay', {
      params: { name: queue },
      body: { msg_id: id },
      ...options,
    })
    return mapResult(answer, ({ msg_id }) => msg_id)
  }

  /** The length of the queue, the age of its messages, and the total number of messages. */
  metrics(queue: string, options: CallOptions = {}): Promise<Result<Wire.QueueMetrics>> {
    return this.#send<typeof queueApi.metrics>('GET', '/queue/{project}/queues/{name}/metrics', {
      params: { name: queue },
      ...options,
    })
  }
}

const oneOrMany = (id: number | readonly number[]) =>
  typeof id === 'number' ? { msg_id: id } : { msg_ids: [...id] }
